"""Looks for the pages in the search of the site: `index.py target/site`."""

import json
import sys
from pathlib import Path

SITE = Path(sys.argv[1])
DOCS = Path(__file__).resolve().parents[2] / "docs"

found = {entry["location"].partition("#")[0] for entry in json.loads((SITE / "search/search_index.json").read_text())["docs"]}
missing = [page for page in DOCS.rglob("*.md") if f"docs/{page.relative_to(DOCS).with_suffix('.html')}".replace("README.html", "index.html") not in found]
if missing:
    sys.exit(f"search does not know {', '.join(map(str, missing))}")
print(f"the site has {len(found)} pages, all in its search")
