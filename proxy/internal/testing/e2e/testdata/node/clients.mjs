// Runs the official Node client and the AI SDK against a gateway. Only the base URL and the key are configured.
//
// The environment has GATEWAY and KEY. TestNodeClients configures the models: "demo", and others with scripted providers.
// Each check prints a line. The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import OpenAI, { AzureOpenAI } from 'openai'
import Groq from 'groq-sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, streamText, stepCountIs, tool } from 'ai'
import { z } from 'zod'

const baseURL = process.env.GATEWAY + '/v1'
const apiKey = process.env.KEY
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
const hello = [{ role: 'user', content: 'Hello' }]
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a place.',
    parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
  },
}

const checks = {
  async 'openai: non-streaming response'() {
    const response = await client.chat.completions.create({ model: 'demo', messages: hello })
    assert.equal(response.choices[0].finish_reason, 'stop')
    assert.ok(response.choices[0].message.content.length > 0)
    assert.equal(response.usage.total_tokens, response.usage.prompt_tokens + response.usage.completion_tokens)
  },

  async 'openai: stream helper'() {
    const want = await client.chat.completions.create({ model: 'demo', messages: hello })
    const stream = client.chat.completions.stream({ model: 'demo', messages: hello, stream_options: { include_usage: true } })
    let pieces = 0
    stream.on('content', () => pieces++)
    const final = await stream.finalChatCompletion()
    assert.equal(final.choices[0].message.content, want.choices[0].message.content)
    assert.deepEqual(final.usage, want.usage)
    assert.ok(pieces > 3, `${pieces} pieces`)
  },

  async 'openai: tools in two turns, streamed'() {
    const messages = [{ role: 'user', content: 'Call get_weather: what is the weather in Florence?' }]
    const first = await client.chat.completions.stream({ model: 'demo', messages, tools: [weather] }).finalChatCompletion()
    const { message, finish_reason } = first.choices[0]
    assert.equal(finish_reason, 'tool_calls')
    assert.equal(typeof JSON.parse(message.tool_calls[0].function.arguments).location, 'string')
    const second = await client.chat.completions.create({
      model: 'demo',
      messages: [...messages, message, ...message.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '40 C' }))],
      tools: [weather],
    })
    assert.equal(second.choices[0].finish_reason, 'stop')
  },

  async 'openai: reasoning'() {
    const response = await client.chat.completions.create({ model: 'thinker', messages: hello, max_tokens: 4096, thinking: { type: 'enabled', budget_tokens: 1024 } })
    const { message } = response.choices[0]
    assert.equal(message.reasoning_content, 'A greeting.')
    assert.equal(message.reasoning_details[0].signature, 'c2ln')
    assert.equal(message.content, 'Hi')
  },

  async 'openai: abort of a stream'() {
    const controller = new AbortController()
    const stream = await client.chat.completions.create({ model: 'endless', messages: hello, stream: true }, { signal: controller.signal })
    let text = ''
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? ''
      if (text.length > 20) controller.abort()
    }
    assert.ok(text.length > 20)
  },

  async 'openai: Azure client'() {
    const azure = new AzureOpenAI({ endpoint: process.env.GATEWAY, apiKey, apiVersion: '2025-04-01-preview', maxRetries: 0 })
    const whole = await azure.chat.completions.create({ model: 'demo', messages: hello })
    assert.ok(whole.choices[0].message.content.length > 0)
    const final = await azure.chat.completions.stream({ model: 'demo', messages: hello }).finalChatCompletion()
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content)
    const deployed = new AzureOpenAI({ endpoint: process.env.GATEWAY, apiKey, apiVersion: '2025-04-01-preview', deployment: 'demo', maxRetries: 0 })
    assert.ok((await deployed.chat.completions.create({ model: 'gpt-4o', messages: hello })).choices[0].message.content.length > 0)
    assert.ok((await azure.responses.create({ model: 'demo', input: 'Hello' })).output_text.length > 0)
    await assert.rejects(azure.chat.completions.create({ model: 'none-such', messages: hello }), OpenAI.NotFoundError)
  },

  async 'groq-sdk: non-streaming response, stream and models'() {
    const groq = new Groq({ baseURL: process.env.GATEWAY, apiKey, maxRetries: 0 })
    const whole = await groq.chat.completions.create({ model: 'demo', messages: hello })
    let text = ''
    for await (const chunk of await groq.chat.completions.create({ model: 'demo', messages: hello, stream: true })) {
      text += chunk.choices[0]?.delta?.content ?? ''
    }
    assert.equal(text, whole.choices[0].message.content)
    assert.ok((await groq.models.list()).data.some((m) => m.id === 'demo'))
  },

  async 'openai: error classes'() {
    const wrong = new OpenAI({ baseURL, apiKey: 'sk-wrong', maxRetries: 0 })
    await assert.rejects(wrong.chat.completions.create({ model: 'demo', messages: hello }), OpenAI.AuthenticationError)
    await assert.rejects(client.chat.completions.create({ model: 'none-such', messages: hello }), OpenAI.NotFoundError)
    await assert.rejects(client.chat.completions.create({ model: 'demo', messages: hello, temperature: 3 }), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError)
      assert.equal(e.param, 'temperature')
      return true
    })
    await assert.rejects(client.chat.completions.create({ model: 'quota', messages: hello }), (e) => {
      assert.ok(e instanceof OpenAI.RateLimitError)
      assert.equal(e.code, 'insufficient_quota')
      return true
    })
  },

  async 'openai: an error within a stream is thrown'() {
    const stream = await client.chat.completions.create({ model: 'broken', messages: hello, stream: true })
    let text = ''
    await assert.rejects(async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? ''
    }, /before it was complete/)
    assert.equal(text, 'Hal')
  },

  async 'openai: retries after Retry-After-Ms'() {
    const retrying = new OpenAI({ baseURL, apiKey, maxRetries: 2 })
    const response = await retrying.chat.completions.create({ model: 'flaky', messages: hello })
    assert.equal(response.choices[0].message.content, 'At last')
  },

  async 'openai: models'() {
    const ids = []
    for await (const model of client.models.list()) ids.push(model.id)
    assert.ok(ids.includes('demo') && ids.includes('vendor/model'))
    assert.equal((await client.models.retrieve('vendor/model')).id, 'vendor/model')
  },

  async 'ai sdk: generateText'() {
    const { text, finishReason, usage } = await generateText({ model: gateway('demo'), prompt: 'Hello' })
    assert.ok(text.length > 0)
    assert.equal(finishReason, 'stop')
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0)
  },

  async 'ai sdk: streamText'() {
    const want = await generateText({ model: gateway('demo'), prompt: 'Hello' })
    const { textStream, usage } = streamText({ model: gateway('demo'), prompt: 'Hello' })
    let text = ''
    for await (const piece of textStream) text += piece
    assert.equal(text, want.text)
    assert.equal((await usage).outputTokens, want.usage.outputTokens)
  },

  async 'ai sdk: tools in two turns'() {
    let calls = 0
    const { text, steps } = await generateText({
      model: gateway('demo'),
      prompt: 'Call get_weather: what is the weather in Florence?',
      tools: {
        get_weather: tool({
          description: 'The weather of a place.',
          inputSchema: z.object({ location: z.string() }),
          execute: async () => (calls++, '40 C'),
        }),
      },
      stopWhen: stepCountIs(3),
    })
    assert.equal(calls, 1)
    assert.equal(steps.length, 2)
    assert.ok(text.length > 0)
  },

  async 'ai sdk: reasoning in a stream'() {
    const { fullStream } = streamText({ model: gateway('thinker-streamed'), prompt: 'Hello' })
    let reasoning = ''
    let text = ''
    for await (const part of fullStream) {
      if (part.type === 'reasoning-delta') reasoning += part.text
      if (part.type === 'text-delta') text += part.text
      if (part.type === 'error') throw part.error
    }
    assert.equal(reasoning, 'A greeting.')
    assert.equal(text, 'Hi')
  },

  async 'ai sdk: an error of the gateway is an API error'() {
    await assert.rejects(generateText({ model: gateway('none-such'), prompt: 'Hello', maxRetries: 0 }), (e) => {
      assert.equal(e.statusCode, 404)
      assert.match(e.message, /does not exist/)
      return true
    })
  },
}

const gateway = createOpenAICompatible({ name: 'sluice', baseURL, apiKey, includeUsage: true })

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
