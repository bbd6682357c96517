#!/usr/bin/env python3
"""The chart, the rendered manifests, the rules and the dashboard agree with each
other and with the programs. Needs no Helm.

usage: chart_test.py [unittest arguments]      ATTND names the attnd program
"""
import copy
import json
import os
import re
import subprocess
import tempfile
import unittest

import yaml

from objects import CHART, HERE, ROOT, custom_schemas, load_objects, schema_errors

KUBERNETES = ROOT / "deploy" / "kubernetes"
RULES = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())


def of_kind(objects, kind):
    return [o for o in objects if o["kind"] == kind]


def rules():
    return [rule for group in RULES["groups"] for rule in group["rules"]]


class Values(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((CHART / "values.schema.json").read_text())
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())

    def test_defaults_obey_the_schema(self):
        self.assertEqual(schema_errors(self.values, self.schema), [])

    def test_every_default_is_in_the_schema_and_the_other_way_round(self):
        known = set(self.schema["properties"]) - {"global"}
        self.assertEqual(known, set(self.values))

    def test_mistakes_are_refused(self):
        mistakes = [
            (["cpus"], 1.5), (["cpus"], "2"), (["cpus"], 0), (["replicaCount"], 2),
            (["memory"], "4096"), (["image", "digest"], "sha256:abc"),
            (["autoscaling", "kind"], "both"), (["autoscaling", "targetLoad"], 1.2),
            (["autoscaling", "kind"], "keda"), (["podMonitor", "interval"], "1m"),
            (["latencyObjectiveSeconds"], 0.7), (["config"], {"drain": {}}),
            (["grpcRoute", "enabled"], True), (["tls", "certManager", "enabled"], True),
            (["podLabels"], {"a": 1}), (["deadlineSeconds"], 0)]
        for path, value in mistakes:
            values = copy.deepcopy(self.values)
            inner = values
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            with self.subTest(path=path, value=value):
                self.assertNotEqual(schema_errors(values, self.schema), [])


class Manifests(unittest.TestCase):
    """Both files of deploy/kubernetes, as they are."""

    def each(self):
        for path in sorted(KUBERNETES.glob("*.yaml")):
            with self.subTest(path=path.name):
                yield load_objects(path)

    def test_custom_resources_obey_their_schemas(self):
        schemas = custom_schemas()
        custom = [o for objects in self.each() for o in objects
                  if (o["apiVersion"], o["kind"]) in schemas]
        self.assertEqual({o["kind"] for o in custom},
                         {"ScaledObject", "PodMonitor", "PrometheusRule"})
        for o in custom:
            self.assertEqual(schema_errors(o, schemas[o["apiVersion"], o["kind"]]), [])

    def test_selectors_find_the_pods(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            labels = deployment["spec"]["template"]["metadata"]["labels"].items()
            selectors = [o["spec"]["selector"] for o in of_kind(objects, "Service")]
            selectors += [o["spec"]["selector"]["matchLabels"] for kind in (
                "Deployment", "PodDisruptionBudget", "PodMonitor")
                for o in of_kind(objects, kind)]
            selectors += [o["spec"]["podSelector"]["matchLabels"]
                          for o in of_kind(objects, "NetworkPolicy")]
            self.assertGreaterEqual(len(selectors), 5)
            for selector in selectors:
                self.assertLessEqual(selector.items(), labels)

    def test_ports_exist(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            container, = deployment["spec"]["template"]["spec"]["containers"]
            names = {p["name"] for p in container["ports"]}
            numbers = {p["containerPort"] for p in container["ports"]}
            used = {p["targetPort"] for s in of_kind(objects, "Service")
                    for p in s["spec"]["ports"]}
            used |= {p["port"] for n in of_kind(objects, "NetworkPolicy")
                     for rule in n["spec"]["ingress"] for p in rule["ports"]}
            used |= {e["port"] for m in of_kind(objects, "PodMonitor")
                     for e in m["spec"]["podMetricsEndpoints"]}
            self.assertLessEqual(used, names)
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertIn(container[probe]["grpc"]["port"], numbers)

    def test_pods_are_guaranteed_whole_cpus(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            container, = deployment["spec"]["template"]["spec"]["containers"]
            self.assertEqual(container["resources"]["requests"],
                             container["resources"]["limits"])
            self.assertRegex(container["resources"]["limits"]["cpu"], r"^\d+$")

    def test_pods_may_do_nothing_but_compute(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            pod = deployment["spec"]["template"]["spec"]
            container, = pod["containers"]
            self.assertIs(pod["automountServiceAccountToken"], False)
            self.assertEqual(pod["securityContext"], {
                "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532,
                "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}})
            self.assertEqual(container["securityContext"], {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}})

    def test_the_kubelet_waits_for_the_longest_drain(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            pod = deployment["spec"]["template"]["spec"]
            config = yaml.safe_load(
                of_kind(objects, "ConfigMap")[0]["data"]["attnd.yaml"])
            sleep = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            drain = config["drain"]
            self.assertEqual(drain["grace_seconds"],
                             config["limits"]["deadline_seconds"])
            self.assertGreater(
                pod["terminationGracePeriodSeconds"],
                sleep + drain["delay_seconds"] + drain["grace_seconds"])

    def test_no_replicas_where_something_scales(self):
        for objects in self.each():
            deployment, = of_kind(objects, "Deployment")
            self.assertEqual("replicas" in deployment["spec"],
                             not of_kind(objects, "ScaledObject"))

    def test_attnd_accepts_the_configuration(self):
        for objects in self.each():
            config, = of_kind(objects, "ConfigMap")
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(config["data"]["attnd.yaml"])
                file.flush()
                ran = subprocess.run(
                    [os.environ["ATTND"], "--check-config", file.name],
                    capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_the_rules_are_the_tested_ones(self):
        objects = load_objects(KUBERNETES / "attnd-scaled.yaml")
        rendered = json.dumps(of_kind(objects, "PrometheusRule")[0]["spec"])
        plain = rendered.replace(', namespace=\\"attnd\\"', "").replace(
            'name=\\"attnd-tls\\"', 'name=\\"attnd\\"')
        self.assertEqual(json.loads(plain), RULES)

    def test_the_scaler_asks_for_a_recorded_rule(self):
        scaled, = of_kind(load_objects(KUBERNETES / "attnd-scaled.yaml"), "ScaledObject")
        recorded = {r["record"] for r in rules() if "record" in r}
        for trigger in scaled["spec"]["triggers"]:
            query = trigger["metadata"]["query"]
            self.assertLessEqual(set(re.findall(r"attnd:\w+:\w+", query)), recorded)
            self.assertIn("attnd:", query)


class Rules(unittest.TestCase):
    def test_each_has_a_test(self):
        tests = (HERE / "rules_test.yaml").read_text()
        for rule in rules():
            name = rule.get("alert") or rule["record"]
            with self.subTest(name=name):
                self.assertRegex(tests, rf"{name}\b")

    def test_the_runbook_has_each_alert_and_no_other(self):
        runbook = (ROOT / "deploy" / "README.md").read_text()
        self.assertEqual({r["alert"] for r in rules() if "alert" in r},
                         set(re.findall(r"^#### (Attnd\w+)", runbook, re.M)))


class Dashboard(unittest.TestCase):
    def test_ids_are_unique(self):
        ids = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for panel in DASHBOARD["panels"]:
            refs = [t["refId"] for t in panel.get("targets", [])]
            self.assertEqual(len(refs), len(set(refs)))

    def test_panels_do_not_overlap(self):
        taken = {}
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken[x, y] = panel["title"]

    def test_every_query_is_bound_to_job_and_namespace(self):
        for panel in DASHBOARD["panels"]:
            for target in panel.get("targets", []):
                self.assertIn('job="$job"', target["expr"])
                self.assertIn('namespace=~"$namespace"', target["expr"])


if __name__ == "__main__":
    unittest.main()
