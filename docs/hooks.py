"""What the site does to a page: links to a directory lead to the page of the directory, and what `./test docs` is told stays out."""

import os
import re

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")
TOLD = re.compile(r"^<!-- test: .*?-->\n", re.S | re.M)


def on_page_markdown(markdown, page, config, **_):
    here = os.path.dirname(page.file.src_uri)

    def led(link):
        target = os.path.join(config["docs_dir"], here, link[1])
        if os.path.isdir(target):
            return f"]({link[1].rstrip('/')}/README.md{link[2] or ''})"
        return link[0]

    return LINK.sub(led, TOLD.sub("", markdown))
