"""The shop crawler: what is due, and who works on it, in place of `ShopTable`."""

from __future__ import annotations

from typing import Callable

from shops_types import Shop, Shops


class ShopTable:
    """Shops by country and state, and their pages. Two workers never have one shop; one that dies loses it after two hours."""

    def __init__(self, store: str) -> None:
        self.table = Shops.open(store)

    def register(self, domain: str, shop_name: str, country: str) -> None:
        self.table.shops.create({"domain": domain, "shop_name": shop_name, "country": country})

    def crawl(self, country: str, crawl: Callable[[Shop], None], at_most: int) -> int:
        """Never crawled first, then oldest."""
        crawled = 0
        for lease in self.table.shops.crawl.claim(country, take=at_most):
            with lease:
                crawl(lease.record)
                crawled += 1
        return crawled

    def scrape(self, country: str, scrape: Callable[[Shop], None], at_most: int) -> None:
        """What was crawled since it was last scraped."""
        for lease in self.table.shops.scrape.claim(country, take=at_most):
            with lease:
                scrape(lease.record)

    def stuck_crawls(self, country: str) -> list[str]:
        return [standing.record.domain for standing in self.table.shops.crawl.stuck(country)]

    def save_url(self, domain: str, url: str, kind: str, status: str, price: str | None) -> bool:
        """Whether the offer has changed."""
        page = self.table.pages.put({"domain": domain, "url": url, "kind": kind, "status": status, "price": price})
        return bool(page.meta.changed)

    def urls_of_type(self, domain: str, kind: str) -> list[str]:
        return [page.url for page in self.table.pages.by_type(domain).at(kind)]

    def related(self, core_domain_name: str) -> list[str]:
        return [shop.domain for shop in self.table.shops.siblings(core_domain_name)]
