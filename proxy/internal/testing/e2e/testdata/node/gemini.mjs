// Runs Google's official Node client against a gateway. Only the base URL and the key are configured.
//
// The environment has GATEWAY and KEY. TestNodeGemini configures the models. Each check prints a line.
// The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from '@google/genai'

const options = { baseUrl: process.env.GATEWAY }
const ai = new GoogleGenAI({ apiKey: process.env.KEY, httpOptions: options })
const weather = {
  name: 'weather',
  description: 'The weather of a place.',
  parameters: { type: Type.OBJECT, properties: { location: { type: Type.STRING }, days: { type: Type.INTEGER } }, required: ['location'] },
}
const touch = { name: 'touch', description: 'Touches a file.', parametersJsonSchema: { type: 'object', properties: { path: { type: 'string' } } } }
const thinkingConfig = { includeThoughts: true, thinkingBudget: 2048 }
const config = { maxOutputTokens: 4000, thinkingConfig, tools: [{ functionDeclarations: [weather] }] }
const question = { role: 'user', parts: [{ text: 'What is the weather in Florence?' }] }

// join turns a stream into one response. Consecutive texts are joined, up to the signature that follows them.
async function join(stream) {
  const parts = []
  let last
  for await (const chunk of stream) {
    for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
      const before = parts.at(-1)
      if (part.text !== undefined && before?.text !== undefined && !before.thought === !part.thought && !before.thoughtSignature) {
        before.text += part.text
        if (part.thoughtSignature) before.thoughtSignature = part.thoughtSignature
      } else parts.push({ ...part })
    }
    last = chunk
  }
  return { candidates: [{ ...last.candidates[0], content: { role: 'model', parts } }], usageMetadata: last.usageMetadata }
}

const methods = {
  'non-streaming': (params) => ai.models.generateContent(params),
  streaming: async (params) => join(await ai.models.generateContentStream(params)),
}

// loop does what an agent does: it sends the response back with the tool's result.
async function loop(send) {
  const first = await send({ model: 'scripted', contents: [question], config })
  const { content, finishReason } = first.candidates[0]
  assert.equal(finishReason, 'STOP')
  const parts = content.parts.filter((p) => p.text !== '')
  assert.deepEqual(parts.map((p) => (p.thought ? 'thought' : p.functionCall ? 'call' : 'text')), ['thought', 'text', 'call'])
  assert.equal(parts[0].text, 'I need the tool.')
  assert.equal(parts[1].text, 'Let me look.')
  const call = parts[2].functionCall
  assert.equal(call.name, 'weather')
  assert.deepEqual(call.args, { location: 'Florence', days: 2 })
  const { promptTokenCount, cachedContentTokenCount, candidatesTokenCount, totalTokenCount } = first.usageMetadata
  assert.deepEqual([promptTokenCount, cachedContentTokenCount, candidatesTokenCount, totalTokenCount], [100, 60, 10, 110])
  const result = { role: 'user', parts: [{ functionResponse: { id: call.id, name: call.name, response: { output: '40 C' } } }] }
  const second = await send({ model: 'scripted', contents: [question, content, result], config })
  assert.equal(second.candidates[0].finishReason, 'STOP')
  assert.equal(second.candidates[0].content.parts.map((p) => p.text).join(''), 'It says 40 C.')
}

// converse has the client keep the history, in which each chunk of a stream is an entry of its own.
async function converse(model, send) {
  const chat = ai.chats.create({ model, config: { maxOutputTokens: 32000, thinkingConfig, tools: [{ functionDeclarations: [touch] }] } })
  let message = 'Touch two files.'
  for (let turn = 0; turn < 5; turn++) {
    const { text, calls } = await send(chat, message)
    if (calls.length === 0) return assert.equal(text, 'All is done.')
    message = calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: {} } }))
  }
  assert.fail('the model did not stop calling the tool')
}

const checks = {
  async 'conversation, non-streaming'() {
    await converse('chat', async (chat, message) => {
      const response = await chat.sendMessage({ message })
      return { text: response.text, calls: response.functionCalls ?? [] }
    })
  },

  async 'conversation, streaming'() {
    await converse('chat-streamed', async (chat, message) => {
      const got = { text: '', calls: [] }
      for await (const chunk of await chat.sendMessageStream({ message })) {
        got.text += chunk.text ?? ''
        got.calls.push(...(chunk.functionCalls ?? []))
      }
      return got
    })
  },

  async 'automatic function calling'() {
    const tool = {
      tool: async () => ({ functionDeclarations: [touch] }),
      callTool: async (calls) => calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: {} } })),
    }
    const response = await ai.models.generateContent({
      model: 'automatic', contents: 'Touch two files.',
      config: { maxOutputTokens: 32000, thinkingConfig, tools: [tool], toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.AUTO } } },
    })
    assert.equal(response.text, 'All is done.')
  },

  async 'base URL from the environment'() {
    const response = await new GoogleGenAI({ apiKey: process.env.KEY }).models.generateContent({ model: 'scripted', contents: 'Hello' })
    assert.equal(response.text, 'Fine.')
  },

  async 'a truncated stream is an error'() {
    let text = ''
    await assert.rejects(async () => {
      for await (const chunk of await ai.models.generateContentStream({ model: 'broken', contents: 'Hello' })) text += chunk.text ?? ''
    }, /complete/)
    assert.equal(text, 'Hal')
  },

  async 'a stream can be aborted'() {
    const controller = new AbortController()
    let pieces = 0
    for await (const _ of await ai.models.generateContentStream({ model: 'endless', contents: 'Hello', config: { abortSignal: controller.signal } })) {
      if (++pieces === 3) break
    }
    controller.abort()
    assert.equal(pieces, 3)
  },

  async 'errors have their HTTP status'() {
    const status = (want, message) => (e) => e instanceof ApiError && e.status === want && message.test(e.message)
    await assert.rejects(ai.models.generateContent({ model: 'nowhere', contents: 'Hello' }), status(404, /NOT_FOUND/))
    await assert.rejects(ai.models.generateContent({ model: 'scripted', contents: 'Hello', config: { temperature: 9 } }), status(400, /temperature/))
    const unauthorized = new GoogleGenAI({ apiKey: 'sk-wrong', httpOptions: options })
    await assert.rejects(unauthorized.models.generateContent({ model: 'scripted', contents: 'Hello' }), status(401, /UNAUTHENTICATED/))
  },

  async 'models are listed'() {
    const names = []
    for await (const model of await ai.models.list()) names.push(model.name)
    assert.ok(names.includes('models/scripted'), names.join())
    assert.equal((await ai.models.get({ model: 'scripted' })).name, 'models/scripted')
  },

  async 'tokens are counted'() {
    const { totalTokens } = await ai.models.countTokens({ model: 'scripted', contents: 'Hello' })
    assert.ok(totalTokens > 0 && totalTokens < 100, totalTokens)
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
