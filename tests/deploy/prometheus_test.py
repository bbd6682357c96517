#!/usr/bin/env python3
"""A live Prometheus scrapes a live attnd: the rules and every query of the
dashboard are answered, and with numbers.

usage: prometheus_test.py [unittest arguments]
ATTND, ATTNCTL name the programs.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest

from objects import CHART
from services import Attnd, Prometheus, eventually

# Series that others export.
FOREIGN = re.compile(r"^(kube_|certmanager_)")


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = cls.folder.name
        cls.attnd = Attnd(os.environ["ATTND"], folder, "attnd", {
            "listeners": [{"address": "127.0.0.1:0"}],
            "admin": {"address": "127.0.0.1:0"}})
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.attnd.kill)
        cls.before_any_call = cls.attnd.series_text()
        # The shipped rules, only evaluated more often.
        rules = (CHART / "files" / "rules.yaml").read_text()
        with open(f"{folder}/rules.yaml", "w") as file:
            file.write(re.sub(r"interval: \d+s", "interval: 1s", rules))
        cls.prometheus = Prometheus(folder, {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
            "rule_files": [f"{folder}/rules.yaml"],
            "scrape_configs": [{"job_name": "attnd", "static_configs": [
                {"targets": [cls.attnd.admin], "labels": {"namespace": "here"}}]}]})
        cls.addClassCleanup(cls.prometheus.kill)
        # Work between two scrapes, so that every rate has something to show.
        eventually(lambda: cls.prometheus.vector("attnd_ready"), "attnd is scraped")
        subprocess.run(
            [os.environ["ATTNCTL"], "load", "--target", cls.attnd.grpc, "-n", "2",
             "-d", "2s", "--queries", "64"],
            check=True, stdout=subprocess.DEVNULL)
        eventually(lambda: cls.prometheus.vector("attnd:slow:ratio6h"),
                   "the rules are evaluated")

    def test_every_query_of_the_dashboard_gives_numbers(self):
        dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
        asked = 0
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                query = (target["expr"].replace("$job", "attnd")
                         .replace("$namespace", "here")
                         .replace("$__rate_interval", "1m"))
                with self.subTest(panel=panel["title"], query=query):
                    self.assertNotIn("$", query)
                    self.assertNotEqual(self.prometheus.vector(query), [])
                    asked += 1
        self.assertGreater(asked, 30)

    def test_every_rule_is_evaluated_without_error(self):
        groups = self.prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 30)
        for rule in rules:
            with self.subTest(rule=rule["name"]):
                self.assertEqual(rule.get("lastError", ""), "")
                self.assertEqual(rule["health"], "ok")

    def test_every_recorded_series_exists(self):
        for group in self.prometheus.ask("rules")["groups"]:
            for rule in group["rules"]:
                if rule["type"] == "recording":
                    with self.subTest(rule=rule["name"]):
                        self.assertEqual(
                            len(self.prometheus.vector(rule["name"])), 1)

    def test_the_series_of_the_rules_exist_before_any_call(self):
        rules = (CHART / "files" / "rules.yaml").read_text()
        names = set(re.findall(r"\b(?:attnd|grpc_server|kube|certmanager)_\w+", rules))
        for name in sorted(n for n in names if not FOREIGN.match(n)):
            with self.subTest(name=name):
                self.assertRegex(self.before_any_call, rf"(?m)^{name}\b")

    def test_the_exposition_has_good_form(self):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=self.attnd.series_text(),
            capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
