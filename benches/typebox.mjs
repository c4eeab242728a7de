// Times TypeBox's Value.Cast followed by Value.Errors on the payloads named on the command line.
// One JSON line per payload: {file, nanoseconds, spread}.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const [modules, folder, ...sizes] = process.argv.slice(2)
const require = createRequire(join(modules, 'package.json'))
const { Type } = require('@sinclair/typebox')
const { Value } = require('@sinclair/typebox/value')

// Plain JSON Schema has no kinds, so it is rebuilt from the builders that give them.
function rebuild(schema) {
  const { $ref, const: constant, enum: members, anyOf, type, properties, items } = schema
  const options = 'default' in schema ? { default: schema.default } : {}
  for (const limit of ['minimum', 'maximum', 'minLength', 'maxLength']) {
    if (limit in schema) options[limit] = schema[limit]
  }
  if ($ref) return Type.Ref($ref.split('/').pop())
  if (constant !== undefined) return Type.Literal(constant, options)
  if (members) return Type.Union(members.map((member) => Type.Literal(member)), options)
  if (anyOf) return Type.Union(anyOf.map((variant) => rebuild(variant)), options)
  if (Array.isArray(type)) return Type.Union(type.map((one) => rebuild({ ...schema, type: one })), options)
  switch (type) {
    case 'string': return Type.String(options)
    case 'integer': return Type.Integer(options)
    case 'number': return Type.Number(options)
    case 'boolean': return Type.Boolean(options)
    case 'null': return Type.Null(options)
    case 'array': return Type.Array(rebuild(items ?? {}), options)
    case 'object': {
      const { additionalProperties, required = [] } = schema
      if (additionalProperties !== undefined) {
        options.additionalProperties =
          typeof additionalProperties === 'boolean' ? additionalProperties : rebuild(additionalProperties)
      }
      const entries = Object.entries(properties ?? {}).map(([name, property]) => {
        const built = rebuild(property)
        return [name, required.includes(name) ? built : Type.Optional(built)]
      })
      return Type.Object(Object.fromEntries(entries), options)
    }
    default: return Type.Unknown(options)
  }
}

function measure(work) {
  const budget = 300e6
  const times = []
  for (let i = 0; i < 20; i++) work()
  const started = process.hrtime.bigint()
  while (times.length < 15 || (Number(process.hrtime.bigint() - started) < budget && times.length < 20000)) {
    const before = process.hrtime.bigint()
    work()
    times.push(Number(process.hrtime.bigint() - before))
  }
  times.sort((a, b) => a - b)
  const at = (part) => times[Math.floor((times.length - 1) * part)]
  return { nanoseconds: at(0.5), spread: (at(0.75) - at(0.25)) / at(0.5) }
}

for (const size of sizes) {
  const schema = JSON.parse(readFileSync(join(folder, `${size}.schema.json`), 'utf8'))
  const references = Object.entries(schema.$defs ?? {}).map(([name, definition]) => ({ ...rebuild(definition), $id: name }))
  const built = rebuild(schema)
  for (const state of ['valid', 'dirty']) {
    const value = JSON.parse(readFileSync(join(folder, `${size}.${state}.json`), 'utf8'))
    const result = measure(() => {
      const cast = Value.Cast(built, references, value)
      return [...Value.Errors(built, references, cast)].length
    })
    console.log(JSON.stringify({ file: `${size}.${state}`, ...result }))
  }
}
