// Embeds a text with the official Node clients of Google and Cohere, and with Genkit. Only the base URL and the key are
// configured.
//
// The environment has GATEWAY and KEY. TestNodeEmbeddings configures the model "vectors", whose vectors are [0.5,-0.25].
// Each check prints a line. The exit status is 1 if a check fails.
import assert from 'node:assert/strict'
import { googleAI } from '@genkit-ai/google-genai'
import { ApiError, GoogleGenAI } from '@google/genai'
import { CohereClient, CohereClientV2, CohereError } from 'cohere-ai'
import { genkit } from 'genkit'

const environment = process.env.GATEWAY
const token = process.env.KEY
const vector = [0.5, -0.25]

const checks = {
  async '@google/genai: embedContent'() {
    const ai = new GoogleGenAI({ apiKey: token, httpOptions: { baseUrl: environment } })
    const response = await ai.models.embedContent({ model: 'vectors', contents: 'Hello', config: { taskType: 'RETRIEVAL_QUERY', outputDimensionality: 2 } })
    assert.deepEqual(response.embeddings.map((e) => e.values), [vector])
    await assert.rejects(ai.models.embedContent({ model: 'none-such', contents: 'Hello' }), (e) => e instanceof ApiError && e.status === 404)
  },

  async 'Genkit: embed, embedMany'() {
    const ai = genkit({ plugins: [googleAI({ apiKey: token, baseUrl: environment })] })
    const embedder = googleAI.embedder('vectors')
    const one = await ai.embed({ embedder, content: 'Hello', options: { taskType: 'RETRIEVAL_QUERY', outputDimensionality: 2 } })
    assert.deepEqual(one, [{ embedding: vector }])
    const many = await ai.embedMany({ embedder, content: ['Hello', 'Ciao'] })
    assert.deepEqual(many.map((e) => e.embedding), [vector, vector])
    await assert.rejects(ai.embed({ embedder: googleAI.embedder('none-such'), content: 'Hello' }), /none-such/)
  },

  async 'cohere-ai: embed'() {
    const cohere = new CohereClientV2({ token, environment })
    const response = await cohere.embed({ model: 'vectors', texts: ['Hello'], inputType: 'search_query', embeddingTypes: ['float'] })
    assert.deepEqual(response.embeddings.float, [vector])
    assert.equal(response.meta.billedUnits.inputTokens, 1)
    await assert.rejects(cohere.embed({ model: 'none-such', texts: ['Hello'], inputType: 'search_query' }, { maxRetries: 0 }), (e) => e instanceof CohereError && e.statusCode === 404)
  },

  async 'cohere-ai: embed, version 1'() {
    const cohere = new CohereClient({ token, environment })
    const floats = await cohere.embed({ model: 'vectors', texts: ['Hello'], inputType: 'search_query' })
    assert.equal(floats.responseType, 'embeddings_floats')
    assert.deepEqual(floats.embeddings, [vector])
    const typed = await cohere.embed({ model: 'vectors', texts: ['Hello'], inputType: 'search_query', embeddingTypes: ['float'] })
    assert.equal(typed.responseType, 'embeddings_by_type')
    assert.deepEqual(typed.embeddings.float, [vector])
  },
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
