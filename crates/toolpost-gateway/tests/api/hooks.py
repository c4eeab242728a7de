"""Schemathesis hooks that change generated requests."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """Adds a short deadline to calls of the endless clock, because the tester reads the whole stream."""
    if case.operation.path == "/api/demo/clock" and is_valid_timeout(case.headers):
        # The authentication hook runs last, so the header is no longer validated.
        kwargs["auth"] = set_short_timeout


def is_valid_timeout(headers):
    """Whether the timeout header is absent or valid; the gateway must reject invalid ones."""
    try:
        return float((headers or {}).get("Request-Timeout", 1)) > 0
    except (TypeError, ValueError):
        return False


def set_short_timeout(request):
    request.headers["Request-Timeout"] = "0.05"
    return request
