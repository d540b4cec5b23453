# Reads or writes a topic with the client of Pulsar's own project. What it does stands in one line of JSON on its input; what it read
# goes to its output, a line each.
import base64
import json
import sys
import time

import pulsar

order = json.loads(sys.stdin.readline())
options = {}
if order.get("token"):
    options["authentication"] = pulsar.AuthenticationToken(order["token"])
if order.get("ca"):
    options["tls_trust_certs_file_path"] = order["ca"]
quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
client = pulsar.Client(order["url"], logger=quiet, **options)

if order["do"] == "read":
    kind = getattr(pulsar.ConsumerType, order.get("type", "Exclusive"))
    consumer = client.subscribe(
        order["topic"], order["subscription"], consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest
    )
    # Without a count: until nothing more comes.
    count = order.get("count")
    read = 0
    while count is None or read < count:
        try:
            message = consumer.receive(timeout_millis=5_000 if count is None else 60_000)
        except pulsar.Timeout:
            if count is None:
                break
            raise
        read += 1
        place = message.message_id()
        print(
            json.dumps(
                {
                    "topic": message.topic_name(),
                    "key": message.partition_key(),
                    "ordering_key": message.ordering_key(),
                    "event_time": message.event_timestamp(),
                    "place": [place.ledger_id(), place.entry_id(), place.batch_index()],
                    "properties": message.properties(),
                    "payload": base64.b64encode(message.data()).decode(),
                }
            )
        )
        consumer.acknowledge(message)
else:
    compression = getattr(pulsar.CompressionType, order.get("compression", "NONE"))
    batch = order.get("batch", 1)
    pace = order.get("pace")
    # Whoever takes his time isn't stopped by a broker that is away.
    patient = {"send_timeout_millis": 0, "block_if_queue_full": True} if pace else {}
    producer = client.create_producer(
        order["topic"],
        compression_type=compression,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),
        batching_max_publish_delay_ms=1_000,
        **patient,
    )
    refused = []
    for message in order["messages"]:
        producer.send_async(
            message["payload"].encode(),
            lambda result, place: None if result == pulsar.Result.Ok else refused.append(result),
            properties=message.get("properties", {}),
            partition_key=message.get("key"),
        )
        if pace:
            time.sleep(pace / 1_000)
    producer.flush()
    if refused:
        sys.exit(f"{len(refused)} messages weren't taken: {refused[0]}")
client.close()
