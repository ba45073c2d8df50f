// Made by `larder export typescript tdnet` of the schema of tdnet: change that, and make it again.
/* eslint-disable */
import type { Decimal, Json, JsonInput, Odd } from "larder";

export interface Disclosure {
  seq: number;
  disclosure_id: string;
  company_code: string;
  company_name: string;
  /** Such as an earnings report, a securities report or a timely disclosure. */
  disclosure_type: string;
  title: string;
  disclosed_at: Date;
  pdf_url?: string;
  pdf_s3_key?: string;
  downloaded_at: Date;
  date_partition: string;
}

/** What is given to make one. */
export interface NewDisclosure {
  seq?: number | bigint | null;
  company_code: string;
  company_name: string;
  /** Such as an earnings report, a securities report or a timely disclosure. */
  disclosure_type: string;
  title: string;
  disclosed_at: Date | string;
  pdf_url?: string | null;
  pdf_s3_key?: string | null;
  downloaded_at: Date | string;
}

export interface Execution {
  execution_id: string;
  started_at: Date;
  completed_at?: Date;
  progress: number;
  success_count: number;
  failed_count: number;
  error_message?: string;
}

/** What is given to make one. */
export interface NewExecution {
  execution_id: string;
  completed_at?: Date | string | null;
  progress?: number | bigint | null;
  success_count?: number | bigint | null;
  failed_count?: number | bigint | null;
  error_message?: string | null;
}

export interface Export {
  export_id: string;
  requested_at: Date;
  completed_at?: Date;
  progress: number;
  /** Signed, and therefore gone for the reader a week after completion. */
  download_url?: string;
  error_message?: string;
}

/** What is given to make one. */
export interface NewExport {
  export_id: string;
  completed_at?: Date | string | null;
  progress?: number | bigint | null;
  /** Signed, and therefore gone for the reader a week after completion. */
  download_url?: string | null;
  error_message?: string | null;
}

/** Timely disclosures of listed companies collected from TDnet. */
export interface Tdnet {
  entities: {
    Disclosure: {
      record: Disclosure;
      new: NewDisclosure;
      key: { disclosure_id: string };
      bare: string;
      asked: string;
      loaded: Omit<NewDisclosure, "disclosure_id">;
      changes: {
        set?: { company_name?: string; disclosure_type?: string; title?: string; pdf_url?: string | null; pdf_s3_key?: string | null; downloaded_at?: Date | string; };
        clear?: readonly ("pdf_url" | "pdf_s3_key")[];
      };
      table: { partition: string | { disclosure_id: string }; sort: never; record: Disclosure };
      indexes: {
        by_company: { partition: string | { company_code: string }; sort: Date | string; record: Disclosure };
        by_month: { partition: string | { date_partition: string }; sort: Date | string; record: Disclosure };
      };
      lifecycles: {};
    };
    Execution: {
      record: Execution;
      new: NewExecution;
      key: { execution_id: string };
      bare: string;
      asked: string;
      loaded: Omit<NewExecution, "execution_id">;
      changes: {
        set?: { completed_at?: Date | string | null; progress?: number | bigint; success_count?: number | bigint; failed_count?: number | bigint; error_message?: string | null; };
        add?: { progress?: number | bigint; success_count?: number | bigint; failed_count?: number | bigint; };
        clear?: readonly ("completed_at" | "error_message")[];
      };
      table: { partition: string | { execution_id: string }; sort: never; record: Execution };
      indexes: {
        by_status: { partition: "pending" | "running" | "completed" | "failed" | { status: "pending" | "running" | "completed" | "failed" }; sort: Date | string; record: Execution };
      };
      lifecycles: {
        status: { states: "pending" | "running" | "completed" | "failed"; transitions: { start: {}; complete: {}; fail: { error_message: string } }; group: undefined };
      };
    };
    Export: {
      record: Export;
      new: NewExport;
      key: { export_id: string };
      bare: string;
      asked: string;
      loaded: Omit<NewExport, "export_id">;
      changes: {
        set?: { completed_at?: Date | string | null; progress?: number | bigint; download_url?: string | null; error_message?: string | null; };
        add?: { progress?: number | bigint; };
        clear?: readonly ("completed_at" | "download_url" | "error_message")[];
      };
      table: { partition: string | { export_id: string }; sort: never; record: Export };
      indexes: {
        by_status: { partition: "pending" | "processing" | "completed" | "failed" | { status: "pending" | "processing" | "completed" | "failed" }; sort: Date | string; record: Export };
      };
      lifecycles: {
        status: { states: "pending" | "processing" | "completed" | "failed"; transitions: { start: {}; complete: { download_url: string }; fail: { error_message: string } }; group: undefined };
      };
    };
  };
  collections: {
  };
}
