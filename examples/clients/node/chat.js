// Uses the gateway through the official OpenAI client: lists models, requests a completion and a stream, and lets the model call a tool.
// Only base URL and key differ from a program that uses OpenAI.
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.SLUICE_URL ?? "http://127.0.0.1:8080/v1",
  apiKey: process.env.SLUICE_KEY ?? "sk-local",
});
const model = process.env.MODEL ?? "demo";

for await (const m of client.models.list()) console.log("model:", m.id);

const messages = [{ role: "user", content: "Hello" }];
const completion = await client.chat.completions.create({ model, messages });
console.log("completion:", completion.choices[0].message.content);

process.stdout.write("stream: ");
const stream = await client.chat.completions.create({ model, messages, stream: true });
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
console.log();

const params = {
  model,
  messages: [{ role: "user", content: "Call temperature: how warm is it in Florence?" }],
  tools: [
    {
      type: "function",
      function: {
        name: "temperature",
        parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
      },
    },
  ],
};
const first = await client.chat.completions.create(params);
const { message } = first.choices[0];
params.messages.push(message);
for (const call of message.tool_calls ?? []) {
  console.log("tool:", call.function.name, call.function.arguments);
  params.messages.push({ role: "tool", tool_call_id: call.id, content: "31 °C" });
}
const second = await client.chat.completions.create(params);
console.log("after the tool:", second.choices[0].message.content);
