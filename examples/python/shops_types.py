"""Shops and their pages: what was crawled and scraped, and what is due next.

Made by `larder export python shops`: make it again instead of changing it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Mapping, NoReturn, TypedDict

import larder
from larder import aio

if TYPE_CHECKING:
    from typing_extensions import NotRequired


@dataclass
class Shop(larder.TypedRecord):
    domain: str
    core_domain_name: str | None
    shop_name: str | None
    country: str | None
    shop_country: str | None
    last_crawled_start: datetime | None
    last_crawled_end: datetime | None
    last_scraped_start: datetime | None
    last_scraped_end: datetime | None
    gsi2_pk: str | None
    gsi3_pk: str | None
    gsi4_pk: str | None
    gsi4_sk: str
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewShop(TypedDict):
    """What is given to make a `Shop`."""
    domain: str
    shop_name: NotRequired[str | None]
    country: NotRequired[str | None]
    last_crawled_start: NotRequired[datetime | None]
    last_crawled_end: NotRequired[datetime | None]
    last_scraped_start: NotRequired[datetime | None]
    last_scraped_end: NotRequired[datetime | None]


class SetShop(TypedDict):
    """What an update may set of a `Shop`."""
    shop_name: NotRequired[str | None]
    country: NotRequired[str | None]
    last_crawled_start: NotRequired[datetime | None]
    last_crawled_end: NotRequired[datetime | None]
    last_scraped_start: NotRequired[datetime | None]
    last_scraped_end: NotRequired[datetime | None]


class AddShop(TypedDict):
    """What an update may add to in a `Shop`."""


class ShopValue(TypedDict):
    """What a source gives of a `Shop`."""
    shop_name: NotRequired[str | None]
    country: NotRequired[str | None]
    last_crawled_start: NotRequired[datetime | None]
    last_crawled_end: NotRequired[datetime | None]
    last_scraped_start: NotRequired[datetime | None]
    last_scraped_end: NotRequired[datetime | None]


@dataclass
class ShopByLastCrawled(larder.TypedRecord):
    """What `by_last_crawled` shows of a `Shop`."""
    domain: str
    last_crawled_start: datetime | None
    last_crawled_end: datetime | None
    gsi2_pk: str
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


@dataclass
class ShopByLastScraped(larder.TypedRecord):
    """What `by_last_scraped` shows of a `Shop`."""
    domain: str
    last_crawled_end: datetime | None
    last_scraped_start: datetime | None
    last_scraped_end: datetime | None
    gsi3_pk: str
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


@dataclass
class ShopSiblings(larder.TypedRecord):
    """What `siblings` shows of a `Shop`."""
    domain: str
    gsi4_pk: str
    gsi4_sk: str
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class ShopCrawl(larder.Lifecycle[Shop, str, str, Literal["begin", "finish"], Literal["never", "progress", "done"]]):
    """How a `Shop` goes from state to state: `crawl`."""


class ShopScrape(larder.Lifecycle[Shop, str, str, Literal["begin", "finish"], Literal["never", "progress", "done"]]):
    """How a `Shop` goes from state to state: `scrape`."""


class ShopShelf(larder.Shelf[Shop, str, [str], ShopValue, NewShop, SetShop, AddShop, Literal["shop_name", "country", "last_crawled_start", "last_crawled_end", "last_scraped_start", "last_scraped_end"]]):
    """The records of `Shop`."""

    def partition(self, domain: str) -> larder.Query[Shop, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"domain": domain}})

    def by_last_crawled(self, country: str) -> larder.Query[ShopByLastCrawled, str]:
        return larder.Query(self._native, ShopByLastCrawled._read, {"index": "by_last_crawled", "partition": {"country": country}})

    def by_last_scraped(self, country: str) -> larder.Query[ShopByLastScraped, str]:
        return larder.Query(self._native, ShopByLastScraped._read, {"index": "by_last_scraped", "partition": {"country": country}})

    def siblings(self, core_domain_name: str) -> larder.Query[ShopSiblings, str]:
        return larder.Query(self._native, ShopSiblings._read, {"index": "siblings", "partition": {"core_domain_name": core_domain_name}})

    @property
    def crawl(self) -> ShopCrawl:
        return ShopCrawl(self._native, self._read, "crawl")

    @property
    def scrape(self) -> ShopScrape:
        return ShopScrape(self._native, self._read, "scrape")


class AsyncShopCrawl(aio.Lifecycle[Shop, str, str, Literal["begin", "finish"], Literal["never", "progress", "done"]]):
    """How a `Shop` goes from state to state: `crawl`."""


class AsyncShopScrape(aio.Lifecycle[Shop, str, str, Literal["begin", "finish"], Literal["never", "progress", "done"]]):
    """How a `Shop` goes from state to state: `scrape`."""


class AsyncShopShelf(aio.Shelf[Shop, str, [str], ShopValue, NewShop, SetShop, AddShop, Literal["shop_name", "country", "last_crawled_start", "last_crawled_end", "last_scraped_start", "last_scraped_end"]]):
    """The records of `Shop`."""

    def partition(self, domain: str) -> aio.Query[Shop, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"domain": domain}})

    def by_last_crawled(self, country: str) -> aio.Query[ShopByLastCrawled, str]:
        return aio.Query(self._native, ShopByLastCrawled._read, {"index": "by_last_crawled", "partition": {"country": country}})

    def by_last_scraped(self, country: str) -> aio.Query[ShopByLastScraped, str]:
        return aio.Query(self._native, ShopByLastScraped._read, {"index": "by_last_scraped", "partition": {"country": country}})

    def siblings(self, core_domain_name: str) -> aio.Query[ShopSiblings, str]:
        return aio.Query(self._native, ShopSiblings._read, {"index": "siblings", "partition": {"core_domain_name": core_domain_name}})

    @property
    def crawl(self) -> AsyncShopCrawl:
        return AsyncShopCrawl(self._native, self._read, "crawl")

    @property
    def scrape(self) -> AsyncShopScrape:
        return AsyncShopScrape(self._native, self._read, "scrape")


@dataclass
class Page(larder.TypedRecord):
    domain: str
    url: str
    kind: str
    hash: str
    gsi1_pk: str
    gsi1_sk: str
    meta: larder.Meta = dataclasses.field(repr=False, compare=False)


class NewPage(TypedDict):
    """What is given to make a `Page`."""
    domain: str
    url: str
    kind: str
    status: str
    price: NotRequired[str | None]


class SetPage(TypedDict):
    """What an update may set of a `Page`."""
    kind: NotRequired[str]
    status: NotRequired[str]
    price: NotRequired[str | None]


class AddPage(TypedDict):
    """What an update may add to in a `Page`."""


class PageValue(TypedDict):
    """What a source gives of a `Page`."""
    kind: str
    status: str
    price: NotRequired[str | None]


class PageShelf(larder.Shelf[Page, tuple[str, str], [str, str], PageValue, NewPage, SetPage, AddPage, Literal["price"]]):
    """The records of `Page`."""

    def partition(self, domain: str) -> larder.Query[Page, str]:
        return larder.Query(self._native, self._read, {"index": None, "partition": {"domain": domain}})

    def by_type(self, domain: str) -> larder.Query[Page, str]:
        return larder.Query(self._native, self._read, {"index": "by_type", "partition": {"domain": domain}})


class AsyncPageShelf(aio.Shelf[Page, tuple[str, str], [str, str], PageValue, NewPage, SetPage, AddPage, Literal["price"]]):
    """The records of `Page`."""

    def partition(self, domain: str) -> aio.Query[Page, str]:
        return aio.Query(self._native, self._read, {"index": None, "partition": {"domain": domain}})

    def by_type(self, domain: str) -> aio.Query[Page, str]:
        return aio.Query(self._native, self._read, {"index": "by_type", "partition": {"domain": domain}})


@dataclass
class ShopWithPages:
    shop: Shop | None
    pages: list[Page]

    @classmethod
    def _gather(cls, members: dict[str, list[Any]]) -> ShopWithPages:
        return cls(next(iter(members.get("Shop", [])), None), members.get("Page", []))


_RECORDS: dict[str, Any] = {"Shop": Shop, "Page": Page}


class Shops(larder.System):
    """Shops and their pages: what was crawled and scraped, and what is due next."""

    @classmethod
    def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> Shops:
        """Opens it on a store; see `larder.open`."""
        opened = larder.open("schemas/shops.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def shops(self) -> ShopShelf:
        return ShopShelf(self, self._native.shelf("Shop"), Shop._read)

    @property
    def pages(self) -> PageShelf:
        return PageShelf(self, self._native.shelf("Page"), Page._read)

    @property
    def shop_with_pages(self) -> larder.Collection[ShopWithPages, str, [str]]:
        return larder.Collection(self, "ShopWithPages", ShopWithPages._gather, self._record)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


class AsyncShops(aio.System):
    """Shops and their pages: what was crawled and scraped, and what is due next."""

    @classmethod
    async def open(
        cls,
        store: str | larder.Store | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        provision: bool = False,
    ) -> AsyncShops:
        """Opens it on a store; see `larder.open`."""
        opened = await aio.open("schemas/shops.larder", store, text=FILES, environment=environment, provision=provision)
        return cls(opened._native, opened.store, opened._owns_store)

    @property
    def shops(self) -> AsyncShopShelf:
        return AsyncShopShelf(self, self._native.shelf("Shop"), Shop._read)

    @property
    def pages(self) -> AsyncPageShelf:
        return AsyncPageShelf(self, self._native.shelf("Page"), Page._read)

    @property
    def shop_with_pages(self) -> aio.Collection[ShopWithPages, str, [str]]:
        return aio.Collection(self, "ShopWithPages", ShopWithPages._gather, self._record)

    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:
        return _RECORDS[entity]._read(fields, meta)


#: The schema.
FILES = {
    "schemas/shops.larder": """\
/// Shops and their pages: what was crawled and scraped, and what is due next.
system shops

param table_name: string = "aura-historia-data" from DYNAMODB_TABLE_NAME

table data {
  name  table_name
  key   pk / sk
  strict

  index ProductTypeIndex        as by_type          gsi1_pk / gsi1_sk  project all
  index CountryLastCrawledIndex as by_last_crawled  gsi2_pk / gsi2_sk  project domain, last_crawled_start, last_crawled_end
  index CountryLastScrapedIndex as by_last_scraped  gsi3_pk / gsi3_sk  project domain, last_scraped_start, last_scraped_end, last_crawled_end
  index CoreDomainNameIndex     as siblings         gsi4_pk / gsi4_sk  project keys

  entity Shop {
    key  "SHOP#{domain}" / "META#"

    domain:             string lower nonempty
    core_domain_name  = domain.psl_core()     // www.example.co.uk -> example
    shop_name:          string?
    input country:      string? match /[A-Z]{2}/
    shop_country      = "COUNTRY#{country}"   // absent without a country, and then so are gsi2 and gsi3
    last_crawled_start: instant?
    last_crawled_end:   instant?
    last_scraped_start: instant?
    last_scraped_end:   instant?

    gsi2_pk = shop_country
    gsi3_pk = shop_country
    gsi4_pk = core_domain_name
    gsi4_sk = domain

    lifecycle crawl in gsi2_sk {
      state never     "NEVER#"
      state progress  "PROGRESS#{last_crawled_start}"  lease 2h
      state done      "DONE#{last_crawled_end}"        due 2d

      begin:   never | done -> progress  set last_crawled_start = now
      finish:  progress -> done          set last_crawled_end = now
    }

    lifecycle scrape in gsi3_sk {
      state never     "NEVER#"
      state progress  "PROGRESS#{last_scraped_start}"  lease 2h
      state done      "DONE#{last_scraped_end}"        due 2d
      ready when last_crawled_end > last_scraped_end   // crawled at all, and since the last scrape

      begin:   never | done -> progress  set last_scraped_start = now
      finish:  progress -> done          set last_scraped_end = now
    }
  }

  entity Page {
    key  "SHOP#{domain}" / "URL#{url:fit}"   // a sort key holds 1024 bytes; longer URLs end in a digest

    input domain: string lower nonempty
    url:          url
    kind as type: string nonempty             // category, product, listing, ...
    input status: string
    input price:  string?
    hash        = sha256("{status}{price}")   // changes when the offer does

    gsi1_pk = "SHOP#{domain}"
    gsi1_sk = kind
  }

  collection ShopWithPages { Shop, Page }
}
""",
}
