"""Kubernetes objects out of rendered manifests, and the schemas of custom ones."""
import json
import pathlib

import jsonschema
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHART = ROOT / "deploy" / "charts" / "attnd"


def load_objects(path):
    """Every object of a file of YAML documents."""
    with open(path) as file:
        return [o for o in yaml.safe_load_all(file) if o is not None]


def custom_schemas():
    """(apiVersion, kind) of each custom resource that has a schema here."""
    schemas = {}
    for path in sorted((HERE / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        kind = schema["properties"]
        schemas[kind["apiVersion"]["const"], kind["kind"]["const"]] = schema
    return schemas


def schema_errors(value, schema):
    """One line per fault, with the path to it."""
    validator = jsonschema.Draft7Validator(schema)
    return ["/".join(map(str, e.absolute_path)) + ": " + e.message
            for e in validator.iter_errors(value)]
