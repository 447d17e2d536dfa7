"""Memory of a launch in every space, and what is wrong with how threads use it.

Global memory is the caller's arrays (`buffers`, `regions`, `sparse`), about which blocks can conflict
(`conflicts`). Each block has shared memory (`shared`), in which its threads can race (`races`), and where
copies arrive (`asynchronous`); each thread has local memory (`local`).
"""
