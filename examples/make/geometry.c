/* Prints how the kernel is launched; the header needs no CUDA. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

int main(int count, char **arguments)
{
    uint64_t rows = count > 1 ? strtoull(arguments[1], NULL, 10) : 16;
    uint32_t grid[3];
    if (!batched_rope_h8_d64_theta10000_grid(rows, grid)) {
        fprintf(stderr, "%" PRIu64 " rows are not possible in one launch\n", rows);
        return 1;
    }
    printf("%s: %d bytes of parameters, grid %" PRIu32 " %" PRIu32 " %" PRIu32 ", block %d %d %d, "
           "%zu characters of PTX\n",
           batched_rope_h8_d64_theta10000_entry, (int)batched_rope_parameters_size, grid[0], grid[1], grid[2],
           (int)batched_rope_h8_d64_theta10000_block_x, (int)batched_rope_h8_d64_theta10000_block_y,
           (int)batched_rope_h8_d64_theta10000_block_z, sizeof batched_rope_h8_d64_theta10000_ptx - 1);
    return 0;
}
