"""Two shops as the guide supposes them, as lines of a dump: one crawled three days ago, one whose worker has died."""

import json
from datetime import datetime, timedelta, timezone

now = datetime.now(timezone.utc).replace(microsecond=0)


def at(**ago):
    return (now - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def shop(core, state, **more):
    domain = f"{core}.de"
    texts = {"pk": f"SHOP#{domain}", "sk": "META#", "domain": domain, "core_domain_name": core, "shop_country": "COUNTRY#DE", "gsi2_pk": "COUNTRY#DE",
             "gsi2_sk": state, "gsi3_pk": "COUNTRY#DE", "gsi3_sk": "NEVER#", "gsi4_pk": core, "gsi4_sk": domain, **more}
    item = {name: {"S" if isinstance(value, str) else "N": str(value)} for name, value in texts.items()}
    print(json.dumps({"entity": "shops.Shop", "item": item}))


shop("moebel", f"DONE#{at(days=3)}", last_crawled_start=at(days=3, hours=1), last_crawled_end=at(days=3))
until = int((now - timedelta(hours=2)).timestamp())
shop("silber", f"PROGRESS#{at(hours=4)}", last_crawled_start=at(hours=4), crawl_owner="worker-7", crawl_until=until, crawl_fence=1, crawl_attempts=1)
