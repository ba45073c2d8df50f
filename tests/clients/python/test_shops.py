"""The shop crawler: one table of shops and their URLs, whose state prefixes say what is due."""

import hashlib
import os

import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

import systems

DOMAIN = "shop.example.co.uk"
URL = f"https://{DOMAIN}/products/item-123"


class ShopTable:
    """The queries of the crawler and the scraper, by country and state."""

    def __init__(self, dynamodb):
        self.table = dynamodb.Table(os.environ["DYNAMODB_TABLE_NAME"])

    def register(self, domain, core_domain_name, shop_name, country):
        shop_country = f"COUNTRY#{country}"
        self.table.put_item(
            Item={
                "pk": f"SHOP#{domain}",
                "sk": "META#",
                "domain": domain,
                "core_domain_name": core_domain_name,
                "shop_name": shop_name,
                "shop_country": shop_country,
                "gsi2_pk": shop_country,
                "gsi2_sk": "NEVER#",
                "gsi3_pk": shop_country,
                "gsi3_sk": "NEVER#",
                "gsi4_pk": core_domain_name,
                "gsi4_sk": domain,
            },
            ConditionExpression=Attr("pk").not_exists(),
        )

    def crawl_started(self, domain, at):
        self._mark(domain, "last_crawled_start", "gsi2_sk", "PROGRESS#", at)

    def crawl_finished(self, domain, at):
        self._mark(domain, "last_crawled_end", "gsi2_sk", "DONE#", at)

    def scrape_started(self, domain, at):
        self._mark(domain, "last_scraped_start", "gsi3_sk", "PROGRESS#", at)

    def scrape_finished(self, domain, at):
        self._mark(domain, "last_scraped_end", "gsi3_sk", "DONE#", at)

    def _mark(self, domain, field, state, prefix, at):
        self.table.update_item(
            Key={"pk": f"SHOP#{domain}", "sk": "META#"},
            UpdateExpression="SET #field = :at, #state = :state",
            ExpressionAttributeNames={"#field": field, "#state": state},
            ExpressionAttributeValues={":at": at, ":state": prefix + at},
            ConditionExpression="attribute_exists(pk)",
        )

    def to_crawl(self, country, cutoff):
        never = self._by_state("gsi2", country, Key("gsi2_sk").begins_with("NEVER#"))
        old = self._by_state("gsi2", country, Key("gsi2_sk").between("DONE#", f"DONE#{cutoff}"))
        return never + old

    def to_scrape(self, country, cutoff):
        never = self._by_state(
            "gsi3",
            country,
            Key("gsi3_sk").begins_with("NEVER#"),
            FilterExpression=Attr("last_crawled_end").exists(),
        )
        old = self._by_state(
            "gsi3",
            country,
            Key("gsi3_sk").between("DONE#", f"DONE#{cutoff}"),
            # An attribute beside an attribute: boto3's builder compares with values alone.
            FilterExpression="last_crawled_end > last_scraped_end",
        )
        return never + old

    def crawling(self, country):
        return self._by_state("gsi2", country, Key("gsi2_sk").between("PROGRESS#", "PROGRESS#~"))

    def stuck_crawls(self, country, started_before):
        between = Key("gsi2_sk").between("PROGRESS#", f"PROGRESS#{started_before}")
        return self._by_state("gsi2", country, between)

    def _by_state(self, index, country, state, **more):
        names = {"gsi2": "CountryLastCrawledIndex", "gsi3": "CountryLastScrapedIndex"}
        answer = self.table.query(
            IndexName=names[index],
            KeyConditionExpression=Key(f"{index}_pk").eq(f"COUNTRY#{country}") & state,
            **more,
        )
        return [item["domain"] for item in answer["Items"]]

    def save_url(self, domain, url, kind, status, price):
        self.table.put_item(
            Item={
                "pk": f"SHOP#{domain}",
                "sk": f"URL#{url}",
                "url": url,
                "type": kind,
                "hash": hashlib.sha256(f"{status}{price}".encode()).hexdigest(),
                "gsi1_pk": f"SHOP#{domain}",
                "gsi1_sk": kind,
            }
        )

    def urls_of_type(self, domain, kind):
        answer = self.table.query(
            IndexName="ProductTypeIndex",
            KeyConditionExpression=Key("gsi1_pk").eq(f"SHOP#{domain}") & Key("gsi1_sk").eq(kind),
        )
        return [item["url"] for item in answer["Items"]]

    def related(self, core_domain_name):
        answer = self.table.query(
            IndexName="CoreDomainNameIndex",
            KeyConditionExpression=Key("gsi4_pk").eq(core_domain_name),
        )
        return answer["Items"]

    def with_urls(self, domain):
        items = self.table.query(KeyConditionExpression=Key("pk").eq(f"SHOP#{domain}"))["Items"]
        return [item["sk"] for item in items]


@pytest.fixture(scope="module")
def made(client):
    with systems.applied(client, "shops", "DYNAMODB_TABLE_NAME", "aura-historia-data-") as name:
        yield name


@pytest.fixture
def table(client, made, monkeypatch):
    """The name of the table, which holds nothing."""
    for item in client.scan(TableName=made)["Items"]:
        client.delete_item(TableName=made, Key={"pk": item["pk"], "sk": item["sk"]})
    monkeypatch.setenv("DYNAMODB_TABLE_NAME", made)
    return made


@pytest.fixture
def shops(resource_of, table):
    return ShopTable(resource_of("shops"))


def key(item):
    return {"pk": item["pk"], "sk": item["sk"]}


def test_the_program_writes_the_items_of_the_layer(client, shops, table):
    shops.register(DOMAIN, "example", "Example Shop", "DE")
    shops.save_url(DOMAIN, URL, "product", "in stock", "19.99")
    shops.register("slow.example.de", "example", "Slow Shop", "DE")
    shops.crawl_started("slow.example.de", "2100-01-15T07:30:00Z")
    shops.register("old.example.de", "example", "Old Shop", "DE")
    shops.crawl_started("old.example.de", "2100-01-10T10:00:00Z")
    shops.crawl_finished("old.example.de", "2100-01-10T12:00:00Z")
    for item in systems.ITEMS["shops"].values():
        assert systems.stored(client, table, key(item)) == item


def test_the_program_reads_the_items_of_the_layer(client, shops, table):
    for item in systems.ITEMS["shops"].values():
        client.put_item(TableName=table, Item=item)
    assert shops.to_crawl("DE", "2100-01-13T10:30:00Z") == [DOMAIN, "old.example.de"]
    assert shops.to_scrape("DE", "2100-01-13T10:30:00Z") == ["old.example.de"]
    assert shops.stuck_crawls("DE", "2100-01-15T08:30:00Z") == ["slow.example.de"]
    assert shops.with_urls(DOMAIN) == ["META#", f"URL#{URL}"]
    assert shops.urls_of_type(DOMAIN, "product") == [URL]


def test_a_shop_goes_from_never_to_done_and_is_never_lost(shops):
    shops.register("a.de", "a", "A", "DE")
    assert (shops.to_crawl("DE", "2026-01-13T00:00:00Z"), shops.crawling("DE")) == (["a.de"], [])
    shops.crawl_started("a.de", "2026-01-15T10:00:00Z")
    assert (shops.to_crawl("DE", "2026-01-13T00:00:00Z"), shops.crawling("DE")) == ([], ["a.de"])
    assert shops.stuck_crawls("DE", "2026-01-15T08:00:00Z") == []
    assert shops.stuck_crawls("DE", "2026-01-15T12:00:00Z") == ["a.de"]
    shops.crawl_finished("a.de", "2026-01-15T12:00:00Z")
    assert (shops.to_crawl("DE", "2026-01-13T00:00:00Z"), shops.crawling("DE")) == ([], [])
    assert shops.to_crawl("DE", "2026-01-18T00:00:00Z") == ["a.de"]
    assert shops.to_crawl("FR", "2026-01-18T00:00:00Z") == []


def test_a_shop_is_scraped_once_for_each_crawl(shops):
    shops.register("a.de", "a", "A", "DE")
    assert shops.to_scrape("DE", "2026-01-20T00:00:00Z") == [], "it was never crawled"
    shops.crawl_started("a.de", "2026-01-15T11:00:00Z")
    shops.crawl_finished("a.de", "2026-01-15T12:00:00Z")
    assert shops.to_scrape("DE", "2026-01-20T00:00:00Z") == ["a.de"]
    shops.scrape_started("a.de", "2026-01-15T12:30:00Z")
    assert shops.to_scrape("DE", "2026-01-20T00:00:00Z") == [], "it is being scraped"
    shops.scrape_finished("a.de", "2026-01-15T13:00:00Z")
    assert shops.to_scrape("DE", "2026-01-20T00:00:00Z") == [], "nothing is new"
    shops.crawl_finished("a.de", "2026-01-17T12:00:00Z")
    assert shops.to_scrape("DE", "2026-01-20T00:00:00Z") == ["a.de"]


def test_urls_are_found_by_type_and_domains_by_their_core(shops):
    for domain in ["shop.example.co.uk", "example.de", "other.de"]:
        shops.register(domain, domain.split(".")[-3 if domain.endswith("co.uk") else -2], "", "DE")
    for path, kind in [("1", "product"), ("2", "product"), ("all", "category")]:
        shops.save_url("example.de", f"https://example.de/{path}", kind, "in stock", "1")
    products = shops.urls_of_type("example.de", "product")
    assert set(products) == {"https://example.de/1", "https://example.de/2"}
    assert shops.urls_of_type("example.de", "listing") == []
    related = shops.related("example")
    assert [item["gsi4_sk"] for item in related] == ["example.de", "shop.example.co.uk"]
    assert all(item.keys() == {"pk", "sk", "gsi4_pk", "gsi4_sk"} for item in related)


@systems.needs_access
def test_without_a_permission_the_program_fails_and_says_which(resource_of, shops, table):
    shops.register("a.de", "a", "A", "DE")
    place = f"us-east-1:000000000000:table/{table}"
    uses = [
        ("shops.1.PutItem", lambda shops: shops.register("b.de", "b", "B", "DE"), place),
        ("shops.1.UpdateItem", lambda shops: shops.crawl_started("a.de", "2026-01-15T10:00:00Z"), place),
        ("shops.1.Query", lambda shops: shops.with_urls("a.de"), place),
        ("shops.1.Query", lambda shops: shops.crawling("DE"), f"{place}/index/CountryLastCrawledIndex"),
        ("shops.1.Query", lambda shops: shops.urls_of_type("a.de", "product"), f"{place}/index/ProductTypeIndex"),
    ]
    for name, use, resource in uses:
        with pytest.raises(ClientError) as error:
            use(ShopTable(resource_of(name)))
        assert str(error.value) == systems.denied(name, resource)
