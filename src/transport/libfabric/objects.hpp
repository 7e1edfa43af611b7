// Ownership of libfabric's objects.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>

namespace mrb {

struct CloseLibfabricObject {
  template <class T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};

// Closes an endpoint, queue, table, region, domain or fabric. What it was opened from must outlive it.
template <class T>
using LibfabricObject = std::unique_ptr<T, CloseLibfabricObject>;

}  // namespace mrb
