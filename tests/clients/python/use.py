"""Uses the client that openapi-python-client makes of Waybill's OpenAPI document: sends, reads, lists what died, puts it back.

Its first argument is the folder with the generated package `waybill_client`, the second the host's address, the third a topic that is refused.
"""

import sys
import time

sys.path.insert(0, sys.argv[1])

from waybill_client import Client  # noqa: E402
from waybill_client.api.dead_letters import list_dead_letters, replay_dead_letter, show_dead_letter  # noqa: E402
from waybill_client.api.messages import enqueue, show_message  # noqa: E402
from waybill_client.models import DeadLetterMessage, Message, NewMessage, Problem, ReplayedDeadLetterMessage  # noqa: E402

client = Client(base_url=sys.argv[2])
sent = enqueue.sync_detailed(client=client, body=NewMessage(topic=sys.argv[3], id="by-python", payload={"order": 1}))
assert sent.status_code == 201, sent
message = show_message.sync("by-python", client=client)
assert isinstance(message, Message) and message.topic == "http:" + sys.argv[3], message

while not (listed := list_dead_letters.sync(client=client)).items:
    time.sleep(0.05)
assert [type(item) for item in listed.items] == [DeadLetterMessage], listed
dead = show_dead_letter.sync("by-python", client=client)
assert isinstance(dead, DeadLetterMessage) and dead.id == "by-python", dead
replayed = replay_dead_letter.sync("by-python", client=client)
assert isinstance(replayed, ReplayedDeadLetterMessage), replayed

missing = show_message.sync("nobody", client=client)
assert isinstance(missing, Problem) and missing.code == "OUTBOX.NOT_FOUND", missing
print("used")
