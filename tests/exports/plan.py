"""What `terraform plan` and a change set would do to what is deployed when one export follows another.

    plan.py old.tf new.tf                  plan.py old.json new.json
    plan.py old.tf new.tf --terraform      asks Terraform itself, with a built-in resource in place of each of AWS's

Prints one line for each thing that would be destroyed, and exits with 1 if there is any. The AWS provider is not asked: what makes it
replace a resource is in the tables below.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import hcl2

# Attributes that cannot change in place.
REPLACED_BY = {
    "aws_dynamodb_table": ["name", "hash_key", "range_key", "region"],
    "aws_iam_policy": ["name", "name_prefix", "description"],
    "aws_cloudwatch_metric_alarm": ["alarm_name", "region"],
    "aws_budgets_budget": ["name", "name_prefix"],
    "AWS::DynamoDB::Table": ["TableName", "KeySchema"],
    "AWS::IAM::ManagedPolicy": ["ManagedPolicyName", "Description", "Path"],
    "AWS::CloudWatch::Alarm": ["AlarmName"],
    "AWS::Budgets::Budget": ["BudgetName"],
}


def main() -> int:
    old, new = (pathlib.Path(argument) for argument in sys.argv[1:3])
    if "--terraform" in sys.argv:
        destroyed = planned(old, new)
    elif old.suffix == ".tf":
        destroyed = compared(resources(blocks(old)), resources(blocks(new)), forgotten(blocks(new)))
    else:
        destroyed = compared(stacked(old), stacked(new), set())
    for line in destroyed:
        print(f"{old.name} -> {new.name}: {line}")
    return 1 if destroyed else 0


def compared(old: dict, new: dict, forgotten: set[str]) -> list[str]:
    found = []
    for address, (kind, was) in old.items():
        if address not in new:
            if address not in forgotten:
                found.append(f"{address} is destroyed")
            continue
        kind_now, now = new[address]
        names = REPLACED_BY.get(kind)
        assert kind == kind_now and names is not None, f"{address}: {kind}, {kind_now}"
        changed = [name for name in names if was.get(name) != now.get(name)]
        if changed:
            found.append(f"{address} is replaced, because of {', '.join(changed)}")
    return found


def stacked(path: pathlib.Path) -> dict:
    template = json.loads(path.read_text())
    return {id: (one["Type"], one["Properties"]) for id, one in template["Resources"].items()}


def blocks(path: pathlib.Path) -> dict:
    with path.open() as file:
        return hcl2.load(file)


def bare(text: str) -> str:
    return text.removeprefix("${").removesuffix("}").strip('"')


def resources(parsed: dict) -> dict:
    found = {}
    for block in parsed["resource"]:
        for kind, named in block.items():
            for name, body in named.items():
                found[f"{bare(kind)}.{bare(name)}"] = (bare(kind), body)
    return found


def forgotten(parsed: dict) -> set[str]:
    """What leaves the state and stays where it is."""
    kept = [block for block in parsed.get("removed", []) if block["lifecycle"][0]["destroy"] is False]
    return {bare(block["from"]) for block in kept}


def planned(old: pathlib.Path, new: pathlib.Path) -> list[str]:
    """The same question, put to Terraform: each resource becomes `terraform_data`, which is replaced when its triggers change."""
    with tempfile.TemporaryDirectory() as directory:
        terraform(directory, old, "init", "-input=false")
        terraform(directory, old, "apply", "-input=false", "-auto-approve")
        terraform(directory, new, "plan", "-input=false", "-out=plan")
        shown = json.loads(terraform(directory, new, "show", "-json", "plan"))
    changes = shown.get("resource_changes", [])
    assert changes, "the plan has no resources"
    return [f"{one['address']}: {one['change']['actions']}" for one in changes if "delete" in one["change"]["actions"]]


def terraform(directory: str, path: pathlib.Path, *arguments: str) -> str:
    pathlib.Path(directory, "main.tf.json").write_text(json.dumps(stand_in(blocks(path))))
    done = subprocess.run(["terraform", f"-chdir={directory}", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stand_in(parsed: dict) -> dict:
    made = {}
    for address, (kind, body) in resources(parsed).items():
        # References and variables stay text: the same text is the same value.
        text = {name: json.dumps(body.get(name)).replace("${", "$${") for name in REPLACED_BY[kind]}
        rest = json.dumps(body, sort_keys=True).replace("${", "$${").replace("%{", "%%{")
        made[address.replace(".", "--")] = {"triggers_replace": text, "input": rest}
    removed = [
        {"from": f"terraform_data.{address.replace('.', '--')}", "lifecycle": {"destroy": False}}
        for address in sorted(forgotten(parsed))
    ]
    whole = {"resource": {"terraform_data": made}}
    return whole | ({"removed": removed} if removed else {})


sys.exit(main())
