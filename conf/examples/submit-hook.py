#!/usr/bin/python3
"""A submit hook for gq: reads one request as JSON on standard input, answers in JSON on standard output.

In gq.conf:  [hooks]  submit = ["/usr/local/sbin/gq-submit"]

No answer takes the request as it is; {"refuse": "..."} refuses it with these words; {"change": {...}} changes fields of it.
What goes wrong here (an exit code but 0, an answer that is no JSON, taking longer than submit_time) refuses every request.
See HOOKS in gq(7).
"""

import json
import sys

SHORT = 30 * 60  # seconds
MOST_CARDS_WITHOUT_LIMIT = 1


def answer(request):
    spec = request["spec"]
    cards = spec.get("cards", {}).get("count", 0)
    limit = spec.get("time_limit")
    if cards > MOST_CARDS_WITHOUT_LIMIT and limit is None:
        return {"refuse": "jobs of several cards need a time limit: add --time"}
    if "partition" not in spec and limit is not None and limit <= SHORT:
        return {"change": {"partition": "short"}}
    return {}


json.dump(answer(json.load(sys.stdin)), sys.stdout)
