"""Schemathesis hooks that change generated requests and check responses."""

import schemathesis
from schemathesis.openapi.checks import JsonSchemaError


@schemathesis.hook
def before_call(context, case, kwargs):
    """Adds a short deadline to calls of the endless clock, because the tester reads the whole stream."""
    if case.operation.path == "/api/demo/clock" and is_valid_timeout(case.headers):
        # The authentication hook runs last, so the header is no longer validated.
        kwargs["auth"] = set_short_timeout


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops two failures. Data that does not match its schema is sent with a header that counts the
    mismatches, and generated requests reuse an idempotency key with another input."""
    warnings = int(response.headers.get("toolpost-warnings", ["0"])[0])
    is_reported = isinstance(failure, JsonSchemaError) and warnings > 0
    return not is_reported and b'"IDEMPOTENCY_CONFLICT"' not in response.content


def is_valid_timeout(headers):
    """Whether the timeout header is absent or valid; the gateway must reject invalid ones."""
    try:
        return float((headers or {}).get("Request-Timeout", 1)) > 0
    except (TypeError, ValueError):
        return False


def set_short_timeout(request):
    request.headers["Request-Timeout"] = "0.05"
    return request
