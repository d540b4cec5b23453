"""`python3 -m unittest discover tests`"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from answers import no_answer, refusal  # noqa: E402


class Answers(unittest.TestCase):
    def test_what_was_done_is_no_refusal(self):
        for status in (200, 201, 204, 409):
            self.assertIsNone(refusal(status, b"", []))

    def test_each_refusal_has_its_end(self):
        busy = refusal(503, b"", [("Retry-After", "7")])
        self.assertEqual((busy.word, busy.code, busy.after, busy.effect_unknown), ("retryable", "STOCK.503", 7000, True))
        self.assertFalse(refusal(429, b"", []).effect_unknown)
        self.assertEqual(refusal(401, b"who?", []).word, "blocked")
        self.assertEqual((refusal(422, b"none left", []).word, refusal(422, b"none left", []).reason), ("permanent", "none left"))

    def test_no_answer_leaves_the_effect_open(self):
        self.assertTrue(no_answer("timeout", "no answer in time", True).effect_unknown)
        self.assertEqual(no_answer("denied", "add a grant", False).word, "blocked")


if __name__ == "__main__":
    unittest.main()
