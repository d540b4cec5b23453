import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))

from shipment import shipment


class Shipments(unittest.TestCase):
    def test_a_paid_order_is_shipped_in_one_parcel(self):
        self.assertEqual(shipment({"order": 7}), {"order": 7, "parcels": 1})

    def test_what_is_no_order_is_refused(self):
        with self.assertRaises(ValueError):
            shipment("nonsense")


if __name__ == "__main__":
    unittest.main()
