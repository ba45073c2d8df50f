"""What the five programs' tables counted, `systems.note`, as a test for promtool: the alarm of lunch is raised by it.

    alarm.py throttles.tsv > rules.test.yml

Fails unless something was turned away of each of the five systems.
"""

import json
import sys
from pathlib import Path

SYSTEMS = ["keiba", "lunch", "shops", "tdnet", "weather"]
# Five minutes as it was before, and five as it was after.
STEP_SECONDS, SAMPLES = 15, 20
ALARM = 'ALERTS{alertname="LunchCacheThrottles",alertstate="firing"}'
RAISED = ALARM.replace("}", ',system="lunch",table="lunch-cache-throttled"}')

counted = {system: {} for system in SYSTEMS}
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    system, when, series, value = line.split("\t")
    counted[system].setdefault(series, {})[when] = float(value)

grown = {
    system: sum(values["after"] - values.get("before", 0) for values in of.values()) for system, of in counted.items()
}
print("turned away:", ", ".join(f"{system} {count:g}" for system, count in grown.items()), file=sys.stderr)
never = [system for system, count in grown.items() if count <= 0]
if never:
    sys.exit(f"nothing was turned away of {', '.join(never)}")

# An operation that nobody had asked for before has no sample then.
series = [
    {
        "series": name,
        "values": f"{values['before']:g}x{SAMPLES} {values['after']:g}x{SAMPLES}"
        if "before" in values
        else f"_x{SAMPLES} {values['after']:g}x{SAMPLES}",
    }
    for name, values in counted["lunch"].items()
]
asked = [
    {"expr": ALARM, "eval_time": "4m", "exp_samples": []},
    {"expr": ALARM, "eval_time": "5m30s", "exp_samples": [{"labels": RAISED, "value": 1}]},
]
test = {"interval": f"{STEP_SECONDS}s", "input_series": series, "promql_expr_test": asked}
# JSON is YAML.
print(json.dumps({"rule_files": ["lunch.prometheus.yml"], "evaluation_interval": "15s", "tests": [test]}))
