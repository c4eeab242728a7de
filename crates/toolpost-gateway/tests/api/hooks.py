"""What is added to the requests of the tester."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """A clock ticks as long as somebody listens, and the tester listens to the end."""
    if case.operation.path == "/api/demo/clock" and is_deadline(case.headers):
        # Where requests are signed, nothing is looked at any more.
        kwargs["auth"] = shorten


def is_deadline(headers):
    """Whether the header is absent or a deadline; what is neither is left to be refused."""
    try:
        return float((headers or {}).get("Request-Timeout", 1)) > 0
    except (TypeError, ValueError):
        return False


def shorten(request):
    request.headers["Request-Timeout"] = "0.05"
    return request
