import OpenAI, { NotFoundError } from 'openai';

const client = new OpenAI({ baseURL: process.env.GATEWAY + '/v1', apiKey: process.env.KEY, maxRetries: 0 });
const other = new OpenAI({ baseURL: process.env.GATEWAY + '/v1', apiKey: process.env.OTHER_KEY, maxRetries: 0 });
let passed = 0, failed = 0;
const check = (what, ok) => { ok ? passed++ : failed++; if (!ok) console.log(what); };
const create = () => client.responses.create({ model: 'm', input: 'x', background: true });
const isMissing = (call) => call.then(() => false, (e) => e instanceof NotFoundError);

const made = await create();
check('background', made.status === 'queued');
check('retrieve', (await client.responses.retrieve(made.id)).status === 'queued');
check('another key', await isMissing(other.responses.retrieve(made.id)));
check('input items', (await client.responses.inputItems.list(made.id)).data.length === 1);
check('cancel', (await client.responses.cancel(made.id)).status === 'cancelled');
check('delete', (await client.responses.delete(made.id)) !== null);
check('deleted', await isMissing(client.responses.retrieve(made.id)));

await fetch(process.env.PROVIDER + '/finish');
const done = await create();
const end = await client.responses.retrieve(done.id);
check('complete', end.status === 'completed' && end.output_text === 'hi' && end.usage.total_tokens === 8);
const types = [];
for await (const event of await client.responses.retrieve(done.id, { stream: true, starting_after: 0 })) types.push(event.type);
check('stream', types.at(-1) === 'response.completed');
console.log(`${passed} passed, ${failed} failed`);
