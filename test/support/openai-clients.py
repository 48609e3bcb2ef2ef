# Asks a client of OpenAI's interface for the answers to one conversation, and prints what it got as JSON.
import json
import sys

name, base_url = sys.argv[1:3]
key = "not-checked-at-a-link"
messages = []


def chat_openai(stream):
    from openai import OpenAI

    client = OpenAI(base_url=base_url, api_key=key)
    answer = client.chat.completions.create(model="gpt-5", messages=messages, stream=stream)
    return [chunk.choices[0].delta.content or "" for chunk in answer] if stream else [answer.choices[0].message.content]


def responses_openai(stream):
    from openai import OpenAI

    client = OpenAI(base_url=base_url, api_key=key)
    if not stream:
        return [client.responses.create(model="gpt-5", input=messages).output_text]
    with client.responses.stream(model="gpt-5", input=messages) as events:
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert events.get_final_response().output_text == "".join(pieces)
        return pieces


def litellm(stream):
    import litellm

    answer = litellm.completion(
        model="openai/main", api_base=base_url, api_key=key, messages=messages, stream=stream
    )
    return [chunk.choices[0].delta.content or "" for chunk in answer] if stream else [answer.choices[0].message.content]


def models():
    from openai import OpenAI

    return [model.id for model in OpenAI(base_url=base_url, api_key=key).models.list()]


def refusal():
    from openai import BadRequestError, OpenAI

    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    try:
        client = OpenAI(base_url=base_url, api_key=key)
        client.chat.completions.create(model="x", messages=[{"role": "user", "content": "hi"}], tools=[tool])
    except BadRequestError as error:
        return [error.param, error.body["message"]]


if name in ("models", "refusal"):
    print(json.dumps(globals()[name]()))
else:
    answers = []
    # Equal requests of two clients would get one answer.
    for text, stream in ((f"hello from {name}", False), ("and now?", True)):
        messages.append({"role": "user", "content": text})
        pieces = [piece for piece in globals()[name](stream) if piece]
        answers.append(pieces)
        messages.append({"role": "assistant", "content": "".join(pieces)})
    print(json.dumps(answers))
