"""The judges of tests/chaos: what they must find, and what they must let pass."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "chaos"))
sys.dont_write_bytecode = True

import chaos
import history
import truth

MAIN = "refs/heads/main"


def make_repository():
    """Main was "a", became "b" at 10 to 11, and somebody tries "c" from 20 on."""
    repository = history.Repository("r", 1)
    repository.refs[MAIN] = history.Ref("a", 0)
    repository.refs[MAIN].writes += [history.Write("b", 10, 11), history.Write("c", 20)]
    return repository


class Readers(unittest.TestCase):
    def judge(self, *reads, is_primary=True):
        """Each: what was read, begun, ended."""
        found, repository = [], make_repository()
        judge = history.Reads(lambda promise, text: found.append(promise))
        for value, begun, ended in reads:
            judge.judge("reader", is_primary, repository, {MAIN: value} if value else {}, begun,
                        ended)
        return found

    def test_old_and_new_are_right_while_it_is_written(self):
        self.assertEqual(self.judge(("a", 10.5, 10.6), ("b", 10.6, 10.7)), [])

    def test_what_was_acknowledged_must_be_seen_at_the_primary(self):
        self.assertEqual(self.judge(("a", 11.1, 11.2)), ["primary_never_stale"])
        self.assertEqual(self.judge((None, 11.1, 11.2)), ["primary_never_stale"])
        self.assertEqual(self.judge(("a", 11.1, 11.2), is_primary=False), [])

    def test_nobody_goes_back(self):
        self.assertEqual(self.judge(("b", 12, 12.1), ("a", 12.2, 12.3), is_primary=False),
                         ["secondary_never_goes_back"])

    def test_what_was_not_acknowledged_may_be_seen_or_not(self):
        self.assertEqual(self.judge(("b", 21, 22), ("c", 23, 24)), [])
        self.assertEqual(self.judge(("c", 23, 24), ("b", 25, 26)), ["primary_never_stale"])

    def test_nothing_is_seen_before_it_is_written(self):
        self.assertEqual(self.judge(("c", 12, 13)), ["primary_never_stale"])

    def test_a_lost_answer_leaves_both_values_possible(self):
        self.assertEqual(make_repository().refs[MAIN].could_be(0), ["b", "c"])


class Claims(unittest.TestCase):
    class Site:
        name = "paris"

    def judge(self, *says):
        found = []
        judge = object.__new__(truth.Truth)  # without disks to look at
        judge.suspects, judge.reported = {}, set()
        judge.report = lambda promise, text: found.append(promise)
        for at, said in enumerate(says):
            judge.judge(self.Site, "api", said, "differs", {"r": 0}, "in sync", at)
        return found

    def test_it_is_false_when_it_is_said_twice_in_a_row(self):
        self.assertEqual(self.judge(True, True, True), ["nothing_false_is_said"])
        self.assertEqual(self.judge(True, False, True), [])

    def test_a_sentence_counts_as_well_as_the_flag(self):
        self.assertTrue(truth.says_in_sync({"in_sync": False, "sentence": "in sync, verified: 1"}))
        self.assertTrue(truth.says_in_sync({"in_sync": True, "sentence": ""}))
        self.assertFalse(truth.says_in_sync({"in_sync": False, "sentence": "paris is behind"}))

    def test_a_metric_that_tells_of_trouble_is_no_claim(self):
        text = ("refrelay_lag_seconds 0\nrefrelay_primary_heard_timestamp_seconds 99999999999\n"
                "refrelay_replicables{kind=\"repository\",state=\"%s\"} 1\n")
        self.assertTrue(truth.Metrics(text % "synced").says_in_sync())
        self.assertFalse(truth.Metrics(text % "failed").says_in_sync())


class Plans(unittest.TestCase):
    def test_a_seed_does_the_same_again_and_another_does_not(self):
        self.assertEqual(chaos.make_plan(7, 2, True), chaos.make_plan(7, 2, True))
        self.assertNotEqual(chaos.make_plan(7, 2, True), chaos.make_plan(8, 2, True))

    def test_what_is_planned_can_be_done(self):
        for number in range(1, 40):
            for _, what, name, _, _ in chaos.make_plan(1, number, False)[1]:
                place = chaos.operations.Operations if what == "operation" else \
                    chaos.faults.Faults
                self.assertTrue(callable(getattr(place, name)), name)


class Refs(unittest.TestCase):
    def test_a_loose_ref_hides_the_packed_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "refs" / "heads").mkdir(parents=True)
            (path / "HEAD").write_text("ref: refs/heads/main\n")
            (path / "packed-refs").write_text("# pack-refs with: peeled\n1 refs/heads/main\n"
                                              "^9\n2 refs/heads/x\n")
            (path / "refs" / "heads" / "main").write_text("3\n")
            self.assertEqual(history.read_refs(path), (
                "ref: refs/heads/main", (("refs/heads/main", "3"), ("refs/heads/x", "2"))))
            (path / "HEAD").unlink()
            self.assertIsNone(history.read_refs(path))

    def test_an_advertisement_is_read(self):
        def line(text):
            return b"%04x" % (len(text) + 4) + text
        body = (line(b"# service=git-upload-pack\n") + b"0000" +
                line(b"1" * 40 + b" HEAD\0caps\n") + line(b"2" * 40 + b" refs/heads/main\n") +
                b"0000")
        self.assertEqual(chaos.parse_advertisement(body), {"refs/heads/main": "2" * 40})


if __name__ == "__main__":
    unittest.main()
