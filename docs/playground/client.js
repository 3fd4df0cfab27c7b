// The worker in which the simulator runs: one question at a time; to stop it is to end it and begin another.

export class Client {
  /** @param make makes a worker  @param said is called with what the worker says of itself while it starts */
  constructor(make, said = () => {}) {
    this.make = make;
    this.said = said;
    this.waiting = new Map();
    this.number = 0;
    this.start();
  }

  start() {
    this.worker = this.make();
    this.worker.onmessage = ({ data }) => {
      if (data.status !== undefined) return this.said(data.status);
      const done = this.waiting.get(data.number);
      this.waiting.delete(data.number);
      done?.(data.answer);
    };
    this.worker.onerror = (event) => this.fail(event.message || "the worker could not start");
  }

  ask(request) {
    const number = ++this.number;
    return new Promise((done) => {
      this.waiting.set(number, done);
      this.worker.postMessage({ number, request });
    });
  }

  fail(error) {
    const open = [...this.waiting.values()];
    this.waiting.clear();
    for (const done of open) done({ error, findings: [] });
  }

  stop() {
    this.worker.terminate();
    this.fail("stopped");
    this.start();
  }
}
