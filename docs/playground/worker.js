// Pyodide with NumPy, ml_dtypes, attrs and warpsim, off the page's own thread. Questions wait until it has started.

const pyodide = new URL(self.location).searchParams.get("pyodide");

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
  python.unpackArchive(await archive.arrayBuffer(), "zip", { extractDir: "/warpsim" });
  python.runPython("import sys; sys.path.insert(0, '/warpsim')");
  const { answer } = python.pyimport("playground");
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
