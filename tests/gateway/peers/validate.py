#!/usr/bin/env python3
"""Validates messages with a JSON Schema implementation that is not ours.

    validate.py SCHEMA.json < lines

Each line of standard input is one JSON document. Prints "N valid" and exits 0, or the first fault and exits 1.
"""
import json
import sys

import jsonschema

with open(sys.argv[1], encoding="utf-8") as f:
    schema = json.load(f)
kind = jsonschema.validators.validator_for(schema)
kind.check_schema(schema)
validator = kind(schema)
count = 0
for line in sys.stdin:
    document = json.loads(line, parse_constant=lambda word: sys.exit(f"not JSON: {word}"))
    for error in validator.iter_errors(document):
        sys.exit(f"{error.json_path}: {error.message}\n{line}")
    count += 1
print(f"{count} valid")
