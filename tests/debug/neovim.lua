-- A session in Neovim with nvim-dap: a breakpoint, a step, a step back, the console, the end. Prints what was seen.
local python, kernel = vim.env.WARPSIM_PYTHON, vim.env.WARPSIM_KERNEL
local dap = require("dap")
local seen = {}

dap.adapters.warpsim = { type = "executable", command = python, args = { "-m", "warpsim", "dap" } }
local configuration = {
  type = "warpsim", request = "launch", name = "k", program = kernel, stopOnEntry = false,
  grid = { 1 }, block = { 64 }, args = { "zeros:u32:64", "i32:5" },
}

local function stopped()
  local arrived = false
  dap.listeners.after.event_stopped["test"] = function(_, body) arrived = body end
  return function()
    assert(vim.wait(10000, function() return arrived and dap.session() and dap.session().current_frame ~= nil
      and dap.session().stopped_thread_id ~= nil end), "no stop")
    vim.wait(200)
    table.insert(seen, { arrived.reason, dap.session().current_frame.line })
  end
end

vim.cmd("edit " .. kernel)
vim.api.nvim_win_set_cursor(0, { 26, 0 })
dap.toggle_breakpoint()
dap.listeners.after.event_exited["test"] = function(_, body) table.insert(seen, { "exited", body.exitCode }) end
local ended = false
dap.listeners.after.event_terminated["test"] = function() ended = true end

local wait = stopped()
dap.run(configuration)
wait()
wait = stopped()
dap.step_over()
wait()
wait = stopped()
dap.step_back()
wait()
local answered = false
dap.session():evaluate("info cuda blocks", function(problem, answer)
  answered = true
  table.insert(seen, { "console", problem and problem.message or answer.result:match("running") })
end)
vim.wait(5000, function() return answered end)
dap.toggle_breakpoint()
dap.clear_breakpoints()
vim.wait(200)
dap.continue()
vim.wait(10000, function() return ended end)
print(vim.fn.json_encode(seen))
vim.cmd("qall!")
