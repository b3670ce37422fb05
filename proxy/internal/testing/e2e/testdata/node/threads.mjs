// Runs the threads of the official Node client of Messages against a gateway: the tool runner, which uses them by
// default, and thread(). Only the base URL and the key are configured.
//
// The environment has GATEWAY and KEY. TestNodeThreads configures the models, which call the tool and then say what its
// result is. Each check prints a line. The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: process.env.GATEWAY, apiKey: process.env.KEY, maxRetries: 0 })
const schema = { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] }
const weather = { name: 'weather', description: 'The weather of a place.', input_schema: schema }
const question = { role: 'user', content: 'What is the weather in Florence?' }

async function runTools(model, stream) {
  const calls = []
  const tool = { ...weather, run: (input) => (calls.push(input.location), '40 C'), parse: (input) => input }
  const runner = client.beta.messages.toolRunner({ model, max_tokens: 4000, messages: [question], tools: [tool], stream })
  const final = await runner.runUntilDone()
  assert.deepEqual(calls, ['Florence'])
  assert.equal(final.content.at(-1).text, 'It says 40 C.')
}

async function converse(model, stream) {
  const thread = client.beta.messages.thread({ model, max_tokens: 4000, tools: [weather] })
  const send = (message) => (stream ? thread.stream(message).finalMessage() : thread.send(message))
  const call = (await send(question)).content.at(-1)
  assert.deepEqual([call.type, call.name, call.input], ['tool_use', 'weather', { location: 'Florence' }])
  for (const content of [[{ type: 'tool_result', tool_use_id: call.id, content: '40 C' }], 'Say it again.', 'And again.']) {
    const reply = await send({ role: 'user', content })
    assert.equal(reply.content.at(-1).text, 'It says 40 C.')
  }
  assert.equal(thread.messages.length, 8)
}

const checks = {}
for (const model of ['holding', 'forgetful', 'unsupported', 'ignoring', 'chat', 'gemini', 'fallback']) {
  for (const stream of [false, true]) {
    const how = `${model}, ${stream ? 'streaming' : 'non-streaming'}`
    checks[`tool runner, ${how}`] = () => runTools(model, stream)
    // Only the tool runner continues without a thread where the provider does not support one.
    if (model !== 'unsupported') checks[`thread, ${how}`] = () => converse(model, stream)
  }
}

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
