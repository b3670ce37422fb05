// Runs agents of Node libraries against a gateway. The scripted provider calls a tool twice, with reasoning before each
// call, and then responds with text. The agents request more tokens than the model has, and the tools of LangChain and
// the AI SDK return an empty result.
//
// The environment has GATEWAY and KEY. Each of these checks has a model of its own, because TestNodeAgents reads what its provider
// received. Each check prints a line. The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import { ChatOpenAI } from '@langchain/openai'
import { createAgent, tool as langchainTool } from 'langchain'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentsTool } from '@openai/agents'
import { generateText, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'

const baseURL = process.env.GATEWAY + '/v1'
const apiKey = process.env.KEY
const prompt = 'Touch two files.'
const answer = 'All is done.'
const maxTokens = 32000
const schema = z.object({ path: z.string() })

function langchain(model) {
  return createAgent({
    model: new ChatOpenAI({ model, apiKey, configuration: { baseURL }, maxTokens, maxRetries: 0, modelKwargs: { reasoning_effort: 'high' } }),
    tools: [langchainTool(async () => '', { name: 'touch', description: 'Touches a file.', schema })],
  })
}

const input = { messages: [{ role: 'user', content: prompt }] }
const limits = () => ({ recursionLimit: 12, signal: AbortSignal.timeout(60_000) })

function aisdk(model) {
  return {
    model: createOpenAICompatible({ name: 'sluice', baseURL, apiKey })(model),
    prompt,
    maxOutputTokens: maxTokens,
    maxRetries: 0,
    stopWhen: stepCountIs(6),
    providerOptions: { sluice: { reasoningEffort: 'high' } },
    tools: { touch: tool({ description: 'Touches a file.', inputSchema: schema, execute: async () => '' }) },
  }
}

// The AI SDK's provider for OpenAI uses the Responses API by default, and refers to items that the gateway has stored.
function aisdkResponses(model) {
  return {
    ...aisdk(model),
    model: createOpenAI({ baseURL, apiKey })(model),
    providerOptions: { openai: { reasoningEffort: 'high', forceReasoning: true } },
  }
}

// A model of OpenAI's chat API, which rejects the name of this tool.
const dotted = () => ({
  model: createOpenAI({ baseURL, apiKey }).chat('strict'),
  prompt,
  maxRetries: 0,
  stopWhen: stepCountIs(6),
  tools: { 'fs.touch': tool({ description: 'Touches a file.', inputSchema: schema, execute: async () => 'done' }) },
})

setTracingDisabled(true)

// agents runs an agent with the default model of the Agents SDK, which uses the Responses API.
function agents(model, options) {
  const agent = new Agent({
    name: 'toucher',
    instructions: 'You touch files.',
    model,
    modelSettings: { maxTokens, reasoning: { effort: 'high', summary: 'auto' } },
    tools: [agentsTool({ name: 'touch', description: 'Touches a file.', parameters: schema, execute: async () => 'done' })],
  })
  return new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }) }).run(agent, prompt, { maxTurns: 6, ...options })
}

const checks = {
  async 'LangChain'() {
    const { messages } = await langchain('langchain').invoke(input, limits())
    assert.equal(messages.at(-1).text, answer)
  },

  async 'LangChain, streamed'() {
    let text = ''
    for await (const [message] of await langchain('langchain-streamed').stream(input, { ...limits(), streamMode: 'messages' })) {
      if (message.type === 'ai') text += message.text
    }
    assert.equal(text, answer)
  },

  async 'AI SDK'() {
    assert.equal((await generateText(aisdk('aisdk'))).text, answer)
  },

  async 'AI SDK, streamed'() {
    assert.equal(await streamText(aisdk('aisdk-streamed')).text, answer)
  },

  async 'AI SDK, Responses'() {
    assert.equal((await generateText(aisdkResponses('aisdk-responses'))).text, answer)
  },

  async 'AI SDK, Responses, streamed'() {
    assert.equal(await streamText(aisdkResponses('aisdk-responses-streamed')).text, answer)
  },

  async 'AI SDK, the name of a tool'() {
    const { text, steps } = await generateText(dotted())
    assert.deepEqual([text, steps[0].toolCalls[0].toolName], [answer, 'fs.touch'])
  },

  async 'AI SDK, the name of a tool, streamed'() {
    assert.equal(await streamText(dotted()).text, answer)
  },

  async 'Agents SDK, an image'() {
    const agent = new Agent({
      name: 'viewer',
      model: 'strict',
      tools: [agentsTool({ name: 'view', description: 'Views a file.', parameters: schema, execute: async () => ({ type: 'image', image: 'data:image/png;base64,iVBORw0KGgo=' }) })],
    })
    const run = await new Runner({ modelProvider: new OpenAIProvider({ baseURL, apiKey }) }).run(agent, prompt, { maxTurns: 6 })
    assert.equal(run.finalOutput, answer)
  },

  async 'Agents SDK'() {
    assert.equal((await agents('agents')).finalOutput, answer)
  },

  async 'Agents SDK, streamed'() {
    const run = await agents('agents-streamed', { stream: true })
    let text = ''
    for await (const delta of run.toTextStream()) text += delta
    await run.completed
    assert.equal(text, answer)
  },
}

let failed = 0
for (const [name, check] of Object.entries(checks)) {
  try {
    await check()
    console.log(`ok    ${name}`)
  } catch (e) {
    failed++
    console.log(`FAIL  ${name}: ${e.stack ?? e}`)
  }
}
console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
