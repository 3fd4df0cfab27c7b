// A program and its launch as the fragment of a link: {text, launch} or {example, launch, without}, as JSON, deflated, in base64url.

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function encode(shared) {
  const packed = await through(new TextEncoder().encode(JSON.stringify(shared)), new CompressionStream("deflate-raw"));
  const letters = Array.from(packed, (byte) => String.fromCharCode(byte)).join("");
  return "p=" + btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** What a fragment holds; null where it holds no program. */
export async function decode(fragment) {
  const found = /^#?p=([\w-]+)$/.exec(fragment);
  if (!found) return null;
  try {
    const letters = atob(found[1].replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
  } catch {
    return null;
  }
}

/** The text with these lines (numbers from 1) as comments, so that all others keep their numbers. */
export function without(text, lines) {
  const gone = new Set(lines);
  return text.split("\n").map((line, at) => (gone.has(at + 1) ? "\t// " + line.trim() : line)).join("\n");
}
