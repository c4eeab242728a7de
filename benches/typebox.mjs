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

// The median over batches, after a second in which the engine has compiled what it will.
function measure(work) {
  const now = () => Number(process.hrtime.bigint())
  let rounds = 0
  const warm = now()
  while (now() - warm < 1e9 || rounds < 5) { work(); rounds++ }
  const batch = Math.max(1, Math.floor((rounds / (now() - warm)) * 1e6))
  const times = []
  const started = now()
  while (times.length < 15 || (now() - started < 1e9 && times.length < 1000)) {
    const before = now()
    for (let i = 0; i < batch; i++) work()
    times.push((now() - before) / batch)
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
