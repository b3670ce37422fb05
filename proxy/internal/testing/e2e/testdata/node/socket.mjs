import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';

const client = new OpenAI({ baseURL: process.env.GATEWAY + '/v1', apiKey: process.env.KEY });
const socket = new ResponsesWS(client);
const turn = (create) => new Promise((resolve, reject) => {
  socket.once('response.completed', (e) => resolve(e.response));
  socket.once('error', reject);
  socket.send({ type: 'response.create', model: 'm', store: false, ...create });
});
const first = await turn({ input: 'a question' });
const second = await turn({ input: 'another', previous_response_id: first.id });
const ok = [first, second].every((r) => r.output[0].content[0].text === 'an answer');
socket.close();
console.log(`${ok ? 2 : 0} passed, ${ok ? 0 : 2} failed`);
