"""Validates results as the Python SDK does. Reads a line of JSON for each result:

    {"schema", "structured"}

prints a line for each schema that does not compile and each result that is invalid, and at the end the
number of results.
"""

import json
import sys

from jsonschema.validators import validator_for
from referencing import Registry

count = 0
for line in sys.stdin:
    count += 1
    result = json.loads(line)
    schema = result["schema"]
    try:
        validator = validator_for(schema)
        validator.check_schema(schema)
        if "structured" in result:
            validator(schema, registry=Registry()).validate(result["structured"])
    except Exception as error:
        print(f"{str(error).splitlines()[0]}: {line.strip()}")
print(f"{count} results")
