"""Calls three operations of a gateway through a client generated from its OpenAPI document."""

import json
import sys

from toolpost_client import Client
from toolpost_client.api.demo import demo_add, demo_add_get, demo_fail_get, demo_note
from toolpost_client.models import (
    DemoAddInput,
    DemoAddOutput,
    DemoFailDemoFailureProblem,
    DemoNoteInput,
    DemoNoteOutput,
    Problem,
)

client = Client(base_url=sys.argv[1])

read = demo_add_get.sync(client=client, a=2, b=3)
posted = demo_add.sync(client=client, body=DemoAddInput(a=2, b=3))
assert isinstance(read, DemoAddOutput) and isinstance(posted, DemoAddOutput)

noted = demo_note.sync(client=client, body=DemoNoteInput(text="from a client"))
assert isinstance(noted, DemoNoteOutput)

failed = demo_fail_get.sync(client=client)
assert isinstance(failed, DemoFailDemoFailureProblem)

rejected = demo_add.sync(client=client, body=DemoAddInput(a="two", b=3))
assert isinstance(rejected, Problem)

print(json.dumps({
    "read": {"sum": read.sum_},
    "posted": {"sum": posted.sum_},
    "noted": {"text": noted.text, "kept": noted.kept},
    "failed": {
        "status": failed.status,
        "code": failed.error.code,
        "remedy": failed.error.details.remedy,
    },
    "refused": {"status": rejected.status, "code": rejected.error.code},
}))
