#!/usr/bin/env python3
"""A shop with an outbox of its own: each order, its event and its webhook commit in one transaction, or none of them.

    shop.py create                                      makes the tables of schema.sql
    shop.py place --orders 1000 --customers 50 --rate 100

It knows nothing of Waybill and of no broker. The database is `--database`, else SHOP_DATABASE. An order's id is its number, so a
transaction of which nobody knows whether it was committed is simply tried again.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import psycopg

SUBJECT = "shop.event.order_placed.v1"
# A database that isn't there for this long is broken.
AWAY_SECONDS_MAX = 90


def place(connection, order, customer, cents):
    """One order in one transaction; false if it was there already."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO customers (id) VALUES (%s) ON CONFLICT DO NOTHING", [customer])
        # Locks the customer: its orders are placed one after the other, and so are their events.
        cursor.execute("UPDATE customers SET orders = orders + 1 WHERE id = %s RETURNING orders", [customer])
        (number,) = cursor.fetchone()
        cursor.execute(
            "INSERT INTO orders (id, customer, number, cents) VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO NOTHING",
            [order, customer, number, cents],
        )
        if cursor.rowcount == 0:
            raise psycopg.Rollback()
        event = json.dumps({"order": order, "customer": customer, "number": number, "cents": cents})
        for table in ("outbox_events", "webhook_events"):
            cursor.execute(
                f"INSERT INTO {table} (routing_key, aggregate_type, aggregate_id, payload) VALUES (%s, 'customer', %s, %s)",
                [SUBJECT, customer, event],
            )
        return True
    return False


def place_all(database, orders, customers, rate):
    """Places the orders at a steady rate; a lost connection is made again."""
    connection, lost, begun = None, None, time.monotonic()
    for number in range(orders):
        due = begun + number / rate
        time.sleep(max(0.0, due - time.monotonic()))
        order = f"order-{number + 1:06}"
        while True:
            try:
                connection = connection or psycopg.connect(database, connect_timeout=5)
                # Several customers take turns, so that each has several orders under way.
                place(connection, order, f"customer-{number * 7 % customers:03}", 100 + number % 900)
                lost = None
                break
            except psycopg.OperationalError as error:
                lost = lost or time.monotonic()
                if time.monotonic() - lost > AWAY_SECONDS_MAX:
                    raise
                print(f"the database is away: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
                if connection:
                    connection.close()
                connection = None
                time.sleep(0.2)
        if (number + 1) % 10 == 0 or number + 1 == orders:
            print(f"placed {number + 1}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=["create", "place"])
    parser.add_argument("--database", default=os.environ.get("SHOP_DATABASE", "postgresql://app@127.0.0.1:5432/app"))
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--customers", type=int, default=50)
    parser.add_argument("--rate", type=float, default=100, help="orders a second")
    given = parser.parse_args()
    if given.act == "create":
        with psycopg.connect(given.database) as connection:
            connection.execute(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
        print("the tables are there")
    else:
        place_all(given.database, given.orders, given.customers, given.rate)


if __name__ == "__main__":
    main()
