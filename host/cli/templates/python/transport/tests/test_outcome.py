import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))

from outcome import answered, unanswered


class Outcomes(unittest.TestCase):
    def test_each_status_has_its_outcome(self):
        self.assertEqual(answered(204, []).word, "ack")
        self.assertEqual(answered(401, []).word, "blocked")
        self.assertEqual(answered(422, []).word, "permanent")
        retried = answered(503, [("retry-after", "7")])
        self.assertEqual((retried.word, retried.code, retried.after), ("retryable", "MY_PLUGIN.503", 7000))

    def test_no_answer_is_retried_and_may_have_arrived(self):
        lost = unanswered("timeout", "no answer in time", True)
        self.assertEqual((lost.word, lost.maybe_delivered), ("retryable", True))


if __name__ == "__main__":
    unittest.main()
