"""Uses the gateway through the official OpenAI client: lists models, requests a completion and a stream, and lets the model call a tool.

Only base URL and key differ from a program that uses OpenAI.
"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SLUICE_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("SLUICE_KEY", "sk-local"),
)
model = os.environ.get("MODEL", "demo")

for m in client.models.list():
    print("model:", m.id)

messages = [{"role": "user", "content": "Hello"}]
completion = client.chat.completions.create(model=model, messages=messages)
print("completion:", completion.choices[0].message.content)

print("stream: ", end="")
for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()

messages = [{"role": "user", "content": "Call temperature: how warm is it in Florence?"}]
tools = [
    {
        "type": "function",
        "function": {
            "name": "temperature",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}},
                "required": ["place"],
            },
        },
    }
]
first = client.chat.completions.create(model=model, messages=messages, tools=tools)
message = first.choices[0].message
messages.append(message.model_dump(exclude_none=True))
for call in message.tool_calls or []:
    print("tool:", call.function.name, call.function.arguments)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "31 °C"})
second = client.chat.completions.create(model=model, messages=messages, tools=tools)
print("after the tool:", second.choices[0].message.content)
