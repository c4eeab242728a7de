// Validates results with a validator of the TypeScript SDK. Reads a line of JSON for each result:
//
//   {"schema", "structured"}
//
// prints a line for each schema that does not compile and each result that is invalid, and at the end
// the number of results. The arguments are the folder of the packages and the module of the validator.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [, , folder, module] = process.argv;
const { AjvJsonSchemaValidator } = createRequire(`${folder}/`)(module);

// A client compiles all schemas of a list with one validator.
const validator = new AjvJsonSchemaValidator();
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  count += 1;
  const { schema, structured } = JSON.parse(line);
  try {
    const validate = validator.getValidator(schema);
    if (structured === undefined) continue;
    const { valid, errorMessage } = validate(structured);
    if (!valid) console.log(`${errorMessage}: ${line}`);
  } catch (error) {
    console.log(`${error}: ${line}`);
  }
}
console.log(`${count} results`);
