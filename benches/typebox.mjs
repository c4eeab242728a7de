// Times TypeBox's Value.Cast followed by Value.Errors, one batch per request.
//
// A line on stdin names a payload (`small.dirty`); the response line on stdout is the mean time of one
// repetition in nanoseconds, over a batch of about a millisecond. The first batch of a payload follows
// a warm-up of one second, in which the engine compiles the code.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const [modules, folder] = process.argv.slice(2)
const require = createRequire(join(modules, 'package.json'))
const { Type } = require('@sinclair/typebox')
const { Value } = require('@sinclair/typebox/value')

// Plain JSON Schema has no TypeBox kinds, so the schema is rebuilt with the TypeBox builders.
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
  if (Array.isArray(type)) return Type.Union(type.map((single) => rebuild({ ...schema, type: single })), options)
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

const now = () => Number(process.hrtime.bigint())

// The warmed-up work for one payload and its number of repetitions per batch.
function prepare(name) {
  const size = name.split('.')[0]
  const schema = JSON.parse(readFileSync(join(folder, `${size}.schema.json`), 'utf8'))
  const references = Object.entries(schema.$defs ?? {}).map(([name, definition]) => ({ ...rebuild(definition), $id: name }))
  const built = rebuild(schema)
  const value = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'))
  const work = () => {
    const cast = Value.Cast(built, references, value)
    return [...Value.Errors(built, references, cast)].length
  }
  let rounds = 0
  const started = now()
  while (now() - started < 1e9 || rounds < 5) { work(); rounds++ }
  return { work, count: Math.max(1, Math.floor((rounds / (now() - started)) * 1e6)) }
}

const prepared = new Map()
for await (const name of createInterface({ input: process.stdin })) {
  if (!prepared.has(name)) prepared.set(name, prepare(name))
  const { work, count } = prepared.get(name)
  const before = now()
  for (let i = 0; i < count; i++) work()
  console.log((now() - before) / count)
}
