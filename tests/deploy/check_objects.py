#!/usr/bin/env python3
"""Validates rendered manifests: built-in objects by kubernetes-validate, custom
ones by the schemas beside this file. An object without a schema is a fault.

usage: check_objects.py FILE...
"""
import re
import sys

import kubernetes_validate

from objects import custom_schemas, load_objects, schema_errors

# The oldest that the chart supports, and the newest there is a schema for.
OLDEST = "1.30"

BUILT_IN = re.compile(r"^(v1|[a-z]+/v\d\w*|[a-z.]+\.k8s\.io/v1)$")


def versions():
    known = kubernetes_validate.utils.all_versions()
    return sorted({kubernetes_validate.utils.major_minor(v) for v in known
                   if tuple(map(int, v.split(".")[:2])) >= tuple(
                       map(int, OLDEST.split(".")))},
                  key=lambda v: tuple(map(int, v.split("."))))


def faults_of(obj, schemas, wanted):
    key = obj["apiVersion"], obj["kind"]
    if key in schemas:
        return schema_errors(obj, schemas[key])
    if not BUILT_IN.match(key[0]):
        return ["no schema of our own for %s %s" % key]
    faults = []
    for version in wanted:
        try:
            kubernetes_validate.validate(obj, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            faults.append(f"Kubernetes {version}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            faults.append(error.message)
    return faults


def main(paths):
    schemas, wanted = custom_schemas(), versions()
    seen, failed, unused = 0, 0, set(schemas)
    for path in paths:
        for obj in load_objects(path):
            seen += 1
            unused.discard((obj["apiVersion"], obj["kind"]))
            for fault in faults_of(obj, schemas, wanted):
                failed += 1
                print(f"{path}: {obj['kind']} {obj['metadata']['name']}: {fault}")
    for api, kind in sorted(unused):
        failed += 1
        print(f"no file has a {kind} ({api}): its schema is untested")
    print(f"{seen} objects against Kubernetes {wanted[0]} to {wanted[-1]} and "
          f"{len(schemas)} schemas of custom resources, {failed} faults")
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
