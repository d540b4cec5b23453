#!/usr/bin/env python3
"""Writes orders.jsonl: 1,000 orders of an invented shop, the same bytes on every machine.

    python3 generate.py > orders.jsonl

Only the standard library, and a generator of its own (SplitMix64) instead of `random`, whose choices differ between
Python versions. Names, shops and addresses are invented; the mail domains are reserved for examples (RFC 2606).
"""

import json
import sys
from datetime import datetime, timedelta, timezone

SEED = 20260901
ORDERS = 1_000
CUSTOMERS = 240

# Country, currency, minor units per unit, rate against the catalogue's euro cents, given names, family names.
MARKETS = [
    ("DE", "EUR", 100, 1.0, ["Jürgen", "Käthe", "Björn", "Anneliese", "Mustafa"], ["Müller", "Weiß", "Öztürk", "Groß"]),
    ("FR", "EUR", 100, 1.0, ["Zoé", "François", "Hélène", "Noël", "Aïcha"], ["Lefèvre", "D'Arcy", "Béranger", "Nguyễn"]),
    ("GB", "GBP", 100, 0.86, ["Siobhán", "Oliver", "Priya", "Eilidh"], ["O'Connor", "Patel", "St. John-Smythe", "MacAulay"]),
    ("US", "USD", 100, 1.08, ["María", "Jamal", "Kaʻiulani", "Wei"], ["Hernández", "Washington", "Kealoha", "Chen"]),
    ("PL", "PLN", 100, 4.3, ["Łukasz", "Małgorzata", "Żaneta", "Świętosława"], ["Wójcik", "Dąbrowska", "Gżegżółka"]),
    ("NO", "NOK", 100, 11.6, ["Søren", "Åse", "Bjørg"], ["Ødegård", "Sæther", "Nygård"]),
    ("JP", "JPY", 1, 1.63, ["さくら", "健太", "美咲", "蓮"], ["佐藤", "鈴木", "髙橋", "渡邊"]),
    ("VN", "VND", 1, 270.0, ["Thị Ngọc", "Văn Đức", "Quỳnh"], ["Nguyễn", "Trần", "Đặng"]),
    ("IN", "INR", 100, 90.0, ["आरव", "प्रिया", "அருண்", "Lakshmi"], ["शर्मा", "Iyer", "முருகன்"]),
    ("EG", "EGP", 100, 52.0, ["فاطمة", "يوسف", "مريم"], ["حسن", "عبد الله", "النجار"]),
    ("BR", "BRL", 100, 5.9, ["João", "Conceição", "Antônia"], ["Gonçalves", "Araújo", "da Conceição"]),
    ("GR", "EUR", 100, 1.0, ["Ελένη", "Γιώργος", "Αγγελική"], ["Παπαδόπουλος", "Οικονόμου"]),
]

# SKU, name, price in euro cents, how often it is bought compared with the others.
CATALOGUE = [
    ("COF-1000", "Espresso beans, 1 kg", 2190, 12),
    ("COF-0250", "Filter roast “Yirgacheffe”, 250 g", 890, 14),
    ("TEA-0100", "玉露 Gyokuro, 100 g", 2450, 4),
    ("MUG-0300", "Mug, 300 ml, blue", 1290, 9),
    ("GRD-0001", "Hand grinder", 8900, 2),
    ("KET-0900", "Gooseneck kettle, 0.9 l", 11900, 2),
    ("FLT-0100", "Paper filters, size 2 (100)", 390, 16),
    ("SCL-0001", "Scale, 0.1 g", 3490, 3),
    ("CHO-0070", "Chocolate, 70 % cacao", 450, 11),
    ("HON-0500", "Heather honey, 500 g", 1150, 5),
    ("BSK-0001", "Gift basket \"Café & crème\"", 4990, 2),
    ("SYR-0250", "Syrup, hazelnut / noisette", 720, 6),
]

NOTES = [
    "Please ring twice 🔔🔔",
    "Leave it with the neighbour (3rd floor)",
    "生日快乐! 🎂",
    "No plastic, please.",
    "Gate code: 4711#\nSecond yard, left",
    "It's a gift: \"to Łukasz, with love\"",
]

CHANNELS = ["web", "web", "web", "app", "app", "phone", "shop"]


class SplitMix64:
    """Steele, Lea and Flood's generator: one 64-bit state, the same everywhere."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.MASK
        return (z ^ (z >> 31)) % bound

    def pick(self, items):
        return items[self.below(len(items))]

    def weighted(self, items, weight):
        left = self.below(sum(weight(item) for item in items))
        for item in items:
            left -= weight(item)
            if left < 0:
                return item


def make_customers(rng):
    customers = []
    for number in range(1, CUSTOMERS + 1):
        country, currency, minor, rate, given, family = rng.pick(MARKETS)
        customers.append({
            "id": f"cus-{number:04}",
            "name": f"{rng.pick(given)} {rng.pick(family)}",
            "email": f"customer{number}@example.{rng.pick(['com', 'org', 'net'])}",
            "country": country,
            "currency": currency,
            "minor": minor,
            "rate": rate,
        })
    return customers


def make_order(rng, number, customer, placed_at):
    lines = {}
    for _ in range(1 + min(rng.below(4), rng.below(5))):
        sku, name, cents, _ = rng.weighted(CATALOGUE, lambda item: item[3])
        lines.setdefault(sku, (name, cents, 1 + min(rng.below(5), rng.below(5))))
    items = []
    for sku, (name, cents, quantity) in lines.items():
        # Whole amounts in the currency's smallest unit, so that nobody adds floats.
        unit = round(cents * customer["rate"] * customer["minor"] / 100)
        items.append({"sku": sku, "name": name, "quantity": quantity, "unit_price": unit, "amount": unit * quantity})
    order = {
        "id": f"ord-{number:06}",
        "customer": customer["id"],
        "customer_name": customer["name"],
        "email": customer["email"],
        "country": customer["country"],
        "channel": rng.pick(CHANNELS),
        "items": items,
        "total": sum(item["amount"] for item in items),
        "currency": customer["currency"],
        "placed_at": placed_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if rng.below(12) == 0:
        order["note"] = rng.pick(NOTES)
    return order


def main():
    rng = SplitMix64(SEED)
    customers = make_customers(rng)
    placed_at = datetime(2026, 9, 1, 6, 30, tzinfo=timezone.utc)
    for number in range(1, ORDERS + 1):
        # The smallest of two draws: some customers order often, many once or twice.
        customer = customers[min(rng.below(CUSTOMERS), rng.below(CUSTOMERS))]
        placed_at += timedelta(seconds=20 + rng.below(900))
        order = make_order(rng, number, customer, placed_at)
        sys.stdout.write(json.dumps(order, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    main()
