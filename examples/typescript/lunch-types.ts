// Made by `larder export typescript lunch` of the schema of lunch: change that, and make it again.
/* eslint-disable */
import type { Decimal, Json, JsonInput, Odd } from "larder";

export interface Lunch {
  name: string;
  description: string;
  price: Decimal;
  weekday: "måndag" | "tisdag" | "onsdag" | "torsdag" | "fredag" | "lördag" | "söndag";
  week: number;
  place: string;
}

export interface NewLunch {
  name: string;
  description?: string | null;
  price: Decimal | bigint;
  weekday: "måndag" | "tisdag" | "onsdag" | "torsdag" | "fredag" | "lördag" | "söndag";
  week: number | bigint;
  place: string;
}

export interface Metadata {
  version: string;
  source: string;
  /** What else is kept with it. */
  [name: string]: unknown;
}

export interface NewMetadata {
  version: string;
  source: string;
  /** What else is kept with it. */
  [name: string]: unknown;
}

export interface Issue {
  field: string;
  message: string;
}

export interface NewIssue {
  field: string;
  message: string;
}

export interface Quality {
  completeness: number;
  accuracy: number;
}

export interface NewQuality {
  completeness: number;
  accuracy: number;
}

export interface Menu {
  restaurant: string;
  year: number;
  week: number;
  lunches: (Lunch | Odd)[];
  lunch_count: number;
  cached_at: Date;
  metadata?: Metadata | Odd;
  validation_errors?: Issue[];
  data_quality?: Quality | Odd;
  /** When the restaurant's own page last changed. */
  last_updated?: Date | Odd;
}

/** What is given to make one. */
export interface NewMenu {
  restaurant: string;
  year: number | bigint;
  week: number | bigint;
  lunches: readonly (NewLunch | Odd)[];
  metadata?: NewMetadata | Odd | null;
  validation_errors?: readonly NewIssue[] | null;
  data_quality?: NewQuality | Odd | null;
  /** When the restaurant's own page last changed. */
  last_updated?: Date | string | Odd | null;
}

/** Weekly lunch menus of Swedish restaurants. */
export interface LunchSystem {
  entities: {
    Menu: {
      record: Menu;
      new: NewMenu;
      key: { restaurant: string; year: number | bigint; week: number | bigint };
      bare: never;
      asked: { restaurant: string; year: number; week: number };
      loaded: Omit<NewMenu, "restaurant" | "year" | "week">;
      changes: {
        set?: { lunches?: readonly (NewLunch | Odd)[]; metadata?: NewMetadata | Odd | null; validation_errors?: readonly NewIssue[] | null; data_quality?: NewQuality | Odd | null; last_updated?: Date | string | Odd | null; };
        append?: { lunches?: readonly (NewLunch | Odd)[]; validation_errors?: readonly NewIssue[]; };
        clear?: readonly ("metadata" | "validation_errors" | "data_quality" | "last_updated")[];
      };
      table: { partition: { restaurant: string; year: number | bigint; week: number | bigint }; sort: never; record: Menu };
      indexes: {
        history: { partition: string | { restaurant: string }; sort: Date | string; record: Menu };
      };
      lifecycles: {};
    };
  };
  collections: {
  };
}
