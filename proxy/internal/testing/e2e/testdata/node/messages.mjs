// Runs the official Node client of Messages against a gateway. Only the base URL and the key are configured.
//
// The environment has GATEWAY and KEY. TestNodeMessages configures the models. Each check prints a line.
// The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: process.env.GATEWAY, apiKey: process.env.KEY, maxRetries: 0 })
const weather = {
  name: 'weather',
  description: 'The weather of a place.',
  input_schema: { type: 'object', properties: { location: { type: 'string' }, days: { type: 'integer' } }, required: ['location'] },
}
const ask = { model: 'scripted', max_tokens: 4000, thinking: { type: 'enabled', budget_tokens: 1024 }, tools: [weather] }
const question = { role: 'user', content: 'What is the weather in Florence?' }
const methods = {
  'non-streaming': (params) => client.messages.create(params),
  streaming: (params) => client.messages.stream(params).finalMessage(),
  'streaming, by events': async (params) => {
    const events = []
    for await (const event of await client.messages.create({ ...params, stream: true })) events.push(event.type)
    assert.equal(events[0], 'message_start')
    assert.equal(events.at(-1), 'message_stop')
    return client.messages.stream(params).finalMessage()
  },
}

// loop does what an agent does: it sends the response back with the tool's result.
async function loop(send) {
  const first = await send({ ...ask, messages: [question] })
  assert.equal(first.type, 'message')
  assert.match(first.id, /^msg_/)
  assert.equal(first.stop_reason, 'tool_use')
  assert.deepEqual(first.content.map((c) => c.type), ['thinking', 'text', 'tool_use'])
  const [thinking, text, call] = first.content
  assert.equal(thinking.thinking, 'I need the tool.')
  assert.ok(thinking.signature.length > 0)
  assert.equal(text.text, 'Let me look.')
  assert.match(call.id, /^[a-zA-Z0-9_-]+$/)
  assert.deepEqual(call.input, { location: 'Florence', days: 2 })
  assert.equal(first.usage.input_tokens, 40)
  assert.equal(first.usage.cache_read_input_tokens, 60)
  assert.equal(first.usage.output_tokens, 10)
  const second = await send({
    ...ask,
    messages: [question, { role: first.role, content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '40 C' }] }],
  })
  assert.equal(second.stop_reason, 'end_turn')
  assert.deepEqual(second.content.map((c) => [c.type, c.text]), [['text', 'It says 40 C.']])
}

const checks = {
  async 'a truncated stream is an error'() {
    let text = ''
    const stream = client.messages.stream({ model: 'broken', max_tokens: 10, messages: [question] }).on('text', (t) => (text += t))
    await assert.rejects(stream.finalMessage(), (e) => e instanceof Anthropic.APIError && /complete/.test(e.message))
    assert.equal(text, 'Hal')
  },

  async 'a stream can be aborted'() {
    const stream = await client.messages.create({ model: 'endless', max_tokens: 10, messages: [question], stream: true })
    let pieces = 0
    for await (const event of stream) {
      if (event.type === 'content_block_delta' && ++pieces === 3) break
    }
    assert.equal(pieces, 3)
  },

  async 'error classes'() {
    await assert.rejects(client.messages.create({ model: 'nowhere', max_tokens: 10, messages: [question] }), Anthropic.NotFoundError)
    await assert.rejects(client.messages.create({ model: 'scripted', messages: [question] }), (e) => e instanceof Anthropic.BadRequestError && /max_tokens/.test(e.message))
    const unauthorized = new Anthropic({ baseURL: process.env.GATEWAY, apiKey: 'sk-wrong', maxRetries: 0 })
    await assert.rejects(unauthorized.messages.create({ model: 'scripted', max_tokens: 10, messages: [question] }), Anthropic.AuthenticationError)
  },

  async 'models are listed'() {
    const ids = []
    for await (const model of client.models.list()) ids.push(model.id)
    assert.ok(ids.includes('scripted'), ids.join())
  },
}
for (const [name, send] of Object.entries(methods)) checks['tool in two turns, ' + name] = () => loop(send)

let failed = 0
for (const [name, check] of Object.entries(checks)) {
  try {
    await check()
    console.log('ok   ' + name)
  } catch (e) {
    failed++
    console.log('FAIL ' + name + '\n' + (e.stack ?? e))
  }
}
console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
