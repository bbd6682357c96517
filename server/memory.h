// How the process keeps its memory.
#ifndef ATTND_SERVER_MEMORY_H_
#define ATTND_SERVER_MEMORY_H_

namespace attnd::server {

// Makes malloc keep freed blocks instead of returning their pages to the
// kernel. Call it first thing in main, before any thread exists.
//
// Requests of megabytes come and go all the time; with glibc's defaults each
// gets fresh pages, and faulting one in costs many times what copying into a
// warm one does.
void KeepFreedMemory();

}  // namespace attnd::server

#endif  // ATTND_SERVER_MEMORY_H_
