// Pyodide with NumPy, ml_dtypes, attrs and warpsim, off the page's own thread. Questions wait until it has started.

const pyodide = new URL(self.location).searchParams.get("pyodide");

const FIXED_TIMES = `
import os, sys
sys.dont_write_bytecode = False
sys.path.insert(0, "/warpsim")
for folder, _, names in os.walk("/warpsim"):
    for name in names:
        if name.endswith(".py"):
            os.utime(os.path.join(folder, name), (0, 0))
`;
const COMPILED = `
import io, pathlib, zipfile
out = io.BytesIO()
with zipfile.ZipFile(out, "w") as zipped:
    for path in pathlib.Path("/warpsim").rglob("*.pyc"):
        zipped.write(path, path.relative_to("/warpsim"))
out.getvalue()
`;

/** Unpack warpsim, and the modules that Python compiled on an earlier visit; returns what keeps them for the next. */
async function unpack(python, archive) {
  const into = { extractDir: "/warpsim" };
  python.unpackArchive(archive, "zip", into);
  python.runPython(FIXED_TIMES); // so that Python takes what was compiled from another copy of these files
  if (!self.isSecureContext) return async () => {}; // no digests, and nothing is kept
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", archive));
  const key = new URL(`compiled/${python.version}/${digest.join(".")}`, self.location).href;
  const cache = await caches.open("warpsim");
  const kept = await cache.match(key);
  if (kept) python.unpackArchive(await kept.arrayBuffer(), "zip", into);
  return async () => {
    if (kept) return;
    for (const old of await cache.keys()) await cache.delete(old);
    await cache.put(key, new Response(python.runPython(COMPILED).toJs()));
  };
}

async function start() {
  self.postMessage({ status: "loading Python" });
  const { loadPyodide } = await import(`${pyodide}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: pyodide });
  self.postMessage({ status: "loading NumPy" });
  await python.loadPackage(["numpy", "ml_dtypes", "attrs"], { messageCallback() {}, checkIntegrity: true });
  for (const name of ["numpy", "ml_dtypes", "attrs"])
    if (!python.loadedPackages[name]) throw new Error(`${name} cannot be had from ${pyodide}`);
  self.postMessage({ status: "loading warpsim" });
  const archive = await fetch(new URL("warpsim.zip", self.location));
  if (!archive.ok) throw new Error(`warpsim.zip: ${archive.status} ${archive.statusText}`);
  const keep = await unpack(python, await archive.arrayBuffer());
  const { answer } = python.pyimport("playground");
  setTimeout(() => keep().catch(() => {}), 5000); // no room, or a browser that keeps nothing: the next visit compiles again
  self.postMessage({ status: "ready" });
  return answer;
}

const started = start().catch((error) => {
  self.postMessage({ status: `cannot start: ${error.message ?? error}` });
  return () => JSON.stringify({ error: `The simulator cannot start: ${error.message ?? error}`, findings: [] });
});

self.onmessage = async ({ data: { number, request } }) => {
  const answer = await started;
  let said;
  try {
    said = JSON.parse(answer(JSON.stringify(request)));
  } catch (error) {
    said = { error: String(error.message ?? error), findings: [] };
  }
  self.postMessage({ number, answer: said });
};
