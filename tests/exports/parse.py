"""Reads exports as their own parsers do, and looks for what a parser would not miss."""

import json
import pathlib
import sys

import hcl2
import yaml


def main(directory: pathlib.Path) -> None:
    for path in sorted(directory.glob("*.tf")):
        with path.open() as file:
            blocks = hcl2.load(file)
        assert blocks["resource"], f"{path.name} has no resources"
    for path in sorted(directory.glob("*.json")):
        json.loads(path.read_text())
    for path in sorted(directory.glob("*.dashboard.json")):
        no_overlap(path.name, [(w["x"], w["y"], w["width"], w["height"]) for w in widgets(path)])
    for path in sorted(directory.glob("*.grafana.json")):
        panels = json.loads(path.read_text())["panels"]
        no_overlap(path.name, [tuple(p["gridPos"][side] for side in "xywh") for p in panels])
        assert len({panel["id"] for panel in panels}) == len(panels), f"{path.name}: an id twice"
    for path in sorted(directory.glob("*.prometheus.yml")):
        rules = [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
        assert all(rule["expr"] and rule["alert"] for rule in rules), path.name


def widgets(path: pathlib.Path) -> list[dict]:
    found = json.loads(path.read_text())["widgets"]
    for widget in found:
        properties = widget["properties"]
        if widget["type"] == "metric":
            assert properties["region"] and properties["metrics"], f"{path.name}: {properties['title']}"
    return found


def no_overlap(name: str, places: list[tuple[int, int, int, int]]) -> None:
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells)), f"{name}: two graphs in one place"
    assert all(0 <= x < 24 for x, _ in cells), f"{name}: a graph outside"


main(pathlib.Path(sys.argv[1]))
